"""What runs the jobs of a comparison: one file each, found by its name.

    here   in this process, one after the other
    local  several processes on this machine
    slurm  jobs of a cluster's queue, by submitit
    ray    tasks of a Ray cluster

The store lies where every process sees it: what is written there is all that they share.
"""
