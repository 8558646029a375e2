local function tree(d) if d == 0 then return {} end return {tree(d - 1), tree(d - 1)} end
local function count(t) if t[1] then return 1 + count(t[1]) + count(t[2]) end return 1 end
local keep, total = tree(16), 0
for _ = 1, 20 do total = total + count(tree(12)) end
print(total, count(keep))
