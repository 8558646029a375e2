import heapq
graph = {n: [((n * k + 7) % 20011, (n * k) % 17 + 1) for k in (3, 5, 11)] for n in range(20011)}
best, heap = {}, [(0, 1)]
while heap:
    cost, node = heapq.heappop(heap)
    if node not in best:
        best[node] = cost
        for other, weight in graph[node]:
            if other not in best:
                heapq.heappush(heap, (cost + weight, other))
counts = {}
for word in open("text.txt").read().split():
    counts[word] = counts.get(word, 0) + 1
print(sum(best.values()), max(counts, key=counts.get))
