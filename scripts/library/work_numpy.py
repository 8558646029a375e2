import numpy as np
draw = np.random.RandomState(1)
a, b = draw.rand(300, 300), draw.rand(300, 300)
c = a @ b
s = np.fft.fft(draw.rand(1 << 19))
v = np.sort(draw.rand(400000))
q = np.linalg.solve(a + 300 * np.eye(300), b)
print(c.sum(), abs(s).max(), v[::1000].sum(), q.sum())
