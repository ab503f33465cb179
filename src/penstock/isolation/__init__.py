"""The zygote and the processes of jobs: fork, confinement, wire, output."""
