-- A job prefers the nodes where it and those already there are predicted to be slowed down least.
-- From slurm.conf's job_submit.lua: `dofile("/usr/local/lib/corun/corun.lua").prefer(job_desc)`. Taking that line away
-- undoes it. `corun fleet rank-nodes` keeps the table of nodes; docs/fleet.md explains both.
--
-- A job says by its comment by which profile it runs: `sbatch --comment=corun.profile=xz`. Whatever is missing or wrong
-- here leaves the job as it is: nothing is refused, and nothing waits.

local corun = {
    table_file = "/run/corun/nodes.tsv",
    -- A table that is older, or that far ahead of this clock, is not believed.
    oldest_s = 120,
}

local HEADER = "corun-nodes 1"
-- Numbers from here on are Slurm's NO_VAL and INFINITE, of 16 and 32 bits.
local NO_VALUE_16, NO_VALUE_32 = 0xfffe, 0xfffffffe

local function count(value)
    if type(value) ~= "number" or value < 1 or value == NO_VALUE_16 or value == NO_VALUE_16 + 1
        or value >= NO_VALUE_32 then
        return 1
    end
    return value
end

-- CPUs on each node.
local function cpus_of(job)
    local per_task, tasks = count(job.cpus_per_task), count(job.num_tasks)
    local cpus = math.max(count(job.min_cpus), per_task * tasks)
    return math.ceil(cpus / count(job.min_nodes))
end

-- The nodes of the first line for that profile with as many CPUs, and when the table was written; or nil and why.
local function line_of(profile, cpus)
    local file = io.open(corun.table_file)
    if not file then
        return nil, "no " .. corun.table_file
    end
    local line, why
    if file:read("*l") ~= HEADER then
        why = corun.table_file .. " is of another version"
    end
    local at = not why and tonumber(string.match(file:read("*l") or "", "^at (%d+)$"))
    if not why and (not at or math.abs(os.time() - at) > corun.oldest_s) then
        why = corun.table_file .. " is not of these minutes"
    end
    if not why then
        for one in file:lines() do
            local name, size, nodes = string.match(one, "^([^\t]+)\t(%d+)\t(.+)$")
            if name == profile and tonumber(size) >= cpus then
                line = nodes
                break
            end
        end
        why = "all nodes suit it alike"
    end
    file:close()
    return line, line and at or why
end

-- A node to which no job was sent since the table was written: until the next table nobody knows what jobs that were sent
-- do there. Nil once each had one. What was sent is kept in a global variable, as this file is read for each job. Where
-- Slurm keeps no state from job to job, every job is the first one, and prefers all nodes.
local function unused(nodes, at)
    if not corun_sent then
        corun_sent = { at = at, to = {} }
        return nil
    end
    if corun_sent.at ~= at then
        corun_sent = { at = at, to = {} }
    end
    for _, name in ipairs(nodes) do
        if not corun_sent.to[name] then
            corun_sent.to[name] = true
            return name
        end
    end
    return nil
end

local function prefer(job)
    local comment = job.comment or ""
    local profile = string.match(comment, "corun%.profile=([^ ,;]+)")
    -- What the user asked for stands. An exclusive job has no neighbours.
    if not profile or job.prefer or job.req_nodes or job.shared == 0 then
        return
    end
    local line, found = line_of(profile, cpus_of(job))
    if not line then
        slurm.log_info("corun: a job of %s has no preference: %s", profile, found)
        return
    end
    local bound = tonumber(string.match(comment, "corun%.bound=([^ ,;]+)") or "") or math.huge
    local nodes = {}
    for name, slowdown in string.gmatch(line, "([^ =]+)=([%d.]+)") do
        if tonumber(slowdown) <= bound then
            nodes[#nodes + 1] = name
        end
    end
    if #nodes == 0 then
        slurm.log_info("corun: a job of %s has no preference: slower than %s everywhere", profile, tostring(bound))
        return
    end
    local one = #nodes > 1 and count(job.min_nodes) == 1 and unused(nodes, found)
    job.prefer = one or table.concat(nodes, "|")
    slurm.log_info("corun: a job of %s prefers %s", profile, job.prefer)
end

-- The job's preference of nodes, if it has none of its own.
function corun.prefer(job)
    local fine, fault = pcall(prefer, job)
    if not fine then
        pcall(slurm.log_error, "corun: no preference: %s", tostring(fault))
    end
end

return corun
