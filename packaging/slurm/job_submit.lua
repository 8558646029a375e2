-- Slurm's job_submit.lua of a cluster that has no other. slurm.conf: JobSubmitPlugins=lua

function slurm_job_submit(job_desc, part_list, submit_uid)
    pcall(function() dofile("/usr/local/lib/corun/corun.lua").prefer(job_desc) end)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end
