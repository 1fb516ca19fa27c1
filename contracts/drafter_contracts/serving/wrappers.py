"""Commands that start another command: what each of them takes before the command it starts.

Only options that take a separate value need naming; every other token that begins with a dash is a switch.
The tables follow each tool's own manual (coreutils, util-linux, numactl, Docker, uv, conda, torchrun, Slurm, Open MPI).
"""

from __future__ import annotations

import msgspec

#: What a wrapper runs when its own options are over.
COMMAND = "command"
MODULE_OR_SCRIPT = "module or script"
IMAGE_THEN_COMMAND = "image, then command"
CONTAINER_THEN_COMMAND = "container, then command"


class Wrapper(msgspec.Struct, frozen=True):
    """One wrapper.

    Attributes:
        takes: Options that take the next token as their value.
        takes_two: Options that take the next two tokens.
        positionals: Own positionals before the command (`timeout 5m`).
        assignments: Whether NAME=VALUE tokens before the command set variables.
        subcommands: Words one of which must follow for it to start something (`docker run`); () for none.
        runs: What follows.
        sets: Option to what its value says: "env" (NAME=VALUE), "cwd", "image", "entrypoint", "release", "conda",
            "prefix", "module", or "elsewhere" (an environment that cannot be followed).
        environment: What chooses the Python environment: "" (PATH), "changed" (another PATH), "uv" or "conda".
    """

    takes: frozenset[str] = frozenset()
    takes_two: frozenset[str] = frozenset()
    positionals: int = 0
    assignments: bool = False
    subcommands: tuple[str, ...] = ()
    runs: str = COMMAND
    sets: dict[str, str] = msgspec.field(default_factory=dict)
    environment: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DOCKER = Wrapper(
    takes=_words(
        "--add-host --annotation -a --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent "
        "--cgroupns --cidfile --cpu-count --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime -c --cpu-shares "
        "--cpus --cpuset-cpus --cpuset-mems --detach-keys --device --device-cgroup-rule --device-read-bps "
        "--device-read-iops --device-write-bps --device-write-iops --dns --dns-opt --dns-option --dns-search "
        "--domainname --entrypoint -e --env --env-file --expose --gpus --group-add --health-cmd --health-interval "
        "--health-retries --health-start-period --health-timeout -h --hostname --ip --ip6 --ipc --isolation "
        "--kernel-memory -l --label --label-file --link --link-local-ip --log-driver --log-opt --mac-address -m "
        "--memory --memory-reservation --memory-swap --memory-swappiness --mount --name --net --net-alias --network "
        "--network-alias --oom-score-adj --pid --pids-limit --platform -p --publish --pull --restart --runtime "
        "--security-opt --shm-size --stop-signal --stop-timeout --storage-opt --sysctl --tmpfs --ulimit -u --user "
        "--userns --uts -v --volume --volume-driver --volumes-from -w --workdir --hooks-dir --pod --secret --tz "
        "--umask --authfile --arch --os --context -H --host --log-level --config --connection --url --root --runroot"
    ),
    subcommands=("run", "create"),
    runs=IMAGE_THEN_COMMAND,
    sets={"-e": "env", "--env": "env", "-w": "cwd", "--workdir": "cwd", "--entrypoint": "entrypoint"},
)
_DOCKER_EXEC = Wrapper(
    takes=_words("--detach-keys -e --env --env-file -u --user -w --workdir --context -H --host --log-level --config"),
    subcommands=("exec",),
    runs=CONTAINER_THEN_COMMAND,
    sets={"-e": "env", "--env": "env", "-w": "cwd", "--workdir": "cwd"},
)
_CONDA = Wrapper(
    takes=_words("-n --name -p --prefix --cwd"),
    subcommands=("run",),
    sets={"-n": "conda", "--name": "conda", "-p": "prefix", "--prefix": "prefix", "--cwd": "cwd"},
    environment="conda",
)
_TORCHRUN = Wrapper(
    takes=_words(
        "--nnodes --nproc-per-node --nproc_per_node --rdzv-backend --rdzv_backend --rdzv-endpoint --rdzv_endpoint "
        "--rdzv-id --rdzv_id --rdzv-conf --rdzv_conf --max-restarts --max_restarts --monitor-interval "
        "--monitor_interval --start-method --start_method --role --log-dir --log_dir -r --redirects -t --tee "
        "--local-ranks-filter --local_ranks_filter --node-rank --node_rank --master-addr --master_addr --master-port "
        "--master_port --local-addr --local_addr --logs-specs --logs_specs --event-log-handler --event_log_handler"
    ),
    runs=MODULE_OR_SCRIPT,
)
_ACCELERATE = Wrapper(
    takes=_words(
        "--config_file --num_processes --num_machines --machine_rank --main_process_ip --main_process_port "
        "--mixed_precision --gpu_ids --dynamo_backend --num_cpu_threads_per_process --rdzv_backend --rdzv_conf"
    ),
    subcommands=("launch",),
    runs=MODULE_OR_SCRIPT,
)
_UV = Wrapper(
    takes=_words(
        "--with --with-editable --with-requirements -p --python --extra --no-extra --group --no-group --only-group "
        "--env-file --package --project --directory --index --default-index -i --index-url --extra-index-url -f "
        "--find-links -P --upgrade-package --reinstall-package --index-strategy --keyring-provider --resolution "
        "--prerelease --fork-strategy --exclude-newer --link-mode -C --config-setting --no-build-isolation-package "
        "--no-build-package --no-binary-package --refresh-package --cache-dir --color --allow-insecure-host "
        "--config-file --python-platform -w --torch-backend --from --python-preference -m --module"
    ),
    subcommands=("run",),
    sets={
        "--with": "release",
        "-w": "release",
        "--directory": "cwd",
        "-m": "module",
        "--module": "module",
        "--isolated": "elsewhere",
        "--no-project": "elsewhere",
        "--project": "elsewhere",
        "--active": "elsewhere",
        "-p": "elsewhere",
        "--python": "elsewhere",
    },
    environment="uv",
)
_UVX = msgspec.structs.replace(_UV, subcommands=(), sets={**_UV.sets, "--from": "release"}, environment="unknown")
_SLURM = Wrapper(
    takes=_words(
        "-A --account --accel-bind --acctg-freq -b --begin --bcast -B --extra-node-info -c --cpus-per-task --chdir -C "
        "--constraint --cluster-constraint --comment --container --container-image --container-mounts "
        "--container-name --container-workdir --cpu-bind --cpu-freq --cpus-per-gpu -d --dependency --deadline "
        "--delay-boot -D --distribution -e --error --epilog -E --preserve-slurm-env --exclude -x --export --gpu-bind "
        "--gpu-freq -G --gpus --gpus-per-node --gpus-per-socket --gpus-per-task --gres --gres-flags --het-group --hint "
        "-i --input -J --job-name --jobid -L --licenses -m --mail-type --mail-user --mem --mem-bind --mem-per-cpu "
        "--mem-per-gpu --mincpus --mpi -n --ntasks -N --nodes --network --nice --ntasks-per-core --ntasks-per-gpu "
        "--ntasks-per-node --ntasks-per-socket -o --output --open-mode -p --partition --power --priority --profile "
        "--prolog -q --qos -r --relative --reservation -s -S --core-spec --signal --slurmd-debug --switches -t --time "
        "--task-epilog --task-prolog --threads-per-core --time-min --tmp --uid --gid -w --nodelist -W --wait --wckey"
    ),
    sets={"--container-image": "image", "--chdir": "cwd", "--container-workdir": "cwd"},
)
_MPI = Wrapper(
    takes=_words(
        "-n -np --np -c -N -H -host --host -hostfile --hostfile -machinefile --machinefile -x -wdir --wdir -wd "
        "--bind-to --map-by --rank-by -path --path --prefix -ppn -f -hosts -genvlist -envlist --tag-output-to "
        "--output-filename --timeout --report-uri --allow-run-as-root-as -npernode --npernode -npersocket"
    ),
    takes_two=_words("-mca --mca -gmca --gmca -genv -env --tune"),
    sets={"-x": "env", "-wdir": "cwd", "--wdir": "cwd", "-wd": "cwd"},
)
_SINGULARITY = Wrapper(
    takes=_words(
        "-B --bind --env --env-file -H --home -W --workdir --pwd --cwd -S --scratch --overlay -o --mount --network "
        "--network-args --hostname --dns --security --add-caps --drop-caps --app --apply-cgroups --fusemount --cpus"
    ),
    subcommands=("exec", "run"),
    runs=IMAGE_THEN_COMMAND,
    sets={"--env": "env", "--pwd": "cwd", "--cwd": "cwd"},
)
_KUBECTL = Wrapper(
    takes=_words("-c --container -n --namespace --context --kubeconfig --pod-running-timeout -f --filename --cluster"),
    subcommands=("exec",),
    runs=CONTAINER_THEN_COMMAND,
)

#: Wrapper's program name to what it takes. A name may have several forms; the first whose subcommand fits is used.
WRAPPERS: dict[str, tuple[Wrapper, ...]] = {
    "env": (
        Wrapper(
            takes=_words("-u --unset -C --chdir"),
            assignments=True,
            sets={"-C": "cwd", "--chdir": "cwd"},
        ),
    ),
    "sudo": (
        Wrapper(
            takes=_words("-u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T -U -D -R"),
            assignments=True,
            sets={"-D": "cwd", "--chdir": "cwd"},
            environment="changed",
        ),
    ),
    "doas": (Wrapper(takes=_words("-u -C"), environment="changed"),),
    "numactl": (
        Wrapper(
            takes=_words(
                "-i --interleave -w --weighted-interleave -N --cpunodebind -C --physcpubind -m --membind -p "
                "--preferred -P --preferred-many --shmmode --shmid --file -f --length --offset"
            )
        ),
    ),
    "taskset": (Wrapper(takes=frozenset(), positionals=1),),
    "nohup": (Wrapper(),),
    "setsid": (Wrapper(),),
    "nice": (Wrapper(takes=_words("-n --adjustment")),),
    "ionice": (Wrapper(takes=_words("-c --class -n --classdata -p --pid -P --pgid -u --uid")),),
    "chrt": (Wrapper(takes=_words("-T --sched-runtime -P --sched-period -D --sched-deadline"), positionals=1),),
    "stdbuf": (Wrapper(takes=_words("-i --input -o --output -e --error")),),
    "time": (Wrapper(takes=_words("-f --format -o --output")),),
    "timeout": (Wrapper(takes=_words("-s --signal -k --kill-after"), positionals=1),),
    "flock": (Wrapper(takes=_words("-w --wait --timeout -E --conflict-exit-code"), positionals=1),),
    "exec": (Wrapper(takes=_words("-a")),),
    "command": (Wrapper(),),
    "unbuffer": (Wrapper(),),
    "catchsegv": (Wrapper(),),
    "tini": (Wrapper(takes=_words("-p -e")),),
    "dumb-init": (Wrapper(takes=_words("-r --rewrite")),),
    "docker": (_DOCKER, _DOCKER_EXEC),
    "podman": (_DOCKER, _DOCKER_EXEC),
    "nerdctl": (_DOCKER, _DOCKER_EXEC),
    "singularity": (_SINGULARITY,),
    "apptainer": (_SINGULARITY,),
    "kubectl": (_KUBECTL,),
    "conda": (_CONDA,),
    "mamba": (_CONDA,),
    "micromamba": (_CONDA,),
    "uv": (_UV, msgspec.structs.replace(_UVX, subcommands=("tool",), positionals=1)),
    "uvx": (_UVX,),
    "poetry": (Wrapper(subcommands=("run",), environment="unknown"),),
    "pdm": (Wrapper(subcommands=("run",), environment="unknown"),),
    "pipenv": (Wrapper(subcommands=("run",), environment="unknown"),),
    "hatch": (Wrapper(subcommands=("run",), environment="unknown"),),
    "pixi": (Wrapper(takes=_words("-e --environment --manifest-path"), subcommands=("run",), environment="unknown"),),
    "torchrun": (_TORCHRUN,),
    "accelerate": (_ACCELERATE,),
    "srun": (_SLURM,),
    "mpirun": (_MPI,),
    "mpiexec": (_MPI,),
}

#: Modules that are wrappers when started with `python -m`.
MODULES: dict[str, Wrapper] = {"torch.distributed.run": _TORCHRUN, "torch.distributed.launch": _TORCHRUN}

#: Wrappers that are scripts of the environment whose interpreter they start the engine in.
SCRIPTS = frozenset(("torchrun", "accelerate"))

SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ash", "ksh"))

#: Programs that add arguments of their own to what they start: the command line does not hold all of them.
ADDING = frozenset(("xargs", "parallel", "eval"))
#: Programs of a shell text that only name commands.
PRINTING = frozenset(("echo", "printf"))
#: Commands of a shell text after which PATH may be another.
CHANGING = frozenset(("source", ".", "activate", "eval", "alias", "module", "ml", "spack", "pyenv", "workon", "nvm"))
#: What a package manager is told before the engine starts: what is installed now says nothing then.
INSTALLING = frozenset(("install", "sync", "upgrade", "uninstall"))

#: Options of the Python interpreter that take a value.
PYTHON_TAKES = frozenset(("-W", "-X", "--check-hash-based-pycs"))
