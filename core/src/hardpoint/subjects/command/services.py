"""Programs that run something elsewhere: in a container, a cluster, a terminal, a network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hardpoint.subjects.command.args import read_args
from hardpoint.subjects.command.finding import ask
from hardpoint.subjects.command.opening import Code, Opened, Runs, joined
from hardpoint.subjects.command.option_table import valued_options
from hardpoint.subjects.command.runners import ssh_options
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import HOLE, Word


def _netcat(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], names_of("-e -c -p -s -w -i -q -x -X --exec --sh-exec"))
    for value in args.values("-e", "-c", "--exec", "--sh-exec"):
        opened.find(ask("hands a program to the network"))
        opened.add(Code(value, "netcat"))


def _socat(words: Sequence[Word], opened: Opened) -> None:
    for word in words[1:]:
        match = re.match(r"(?:exec|system|shell):(.*)", word.text, re.IGNORECASE | re.DOTALL)
        if match:
            opened.find(ask("hands a program to the network"))
            opened.add(Code(word.part(re.split(r",(?=[a-z])", match[1])[0].strip("'\"")), "socat"))
        elif re.match(r"(?:tcp|udp|openssl|sctp|socks)", word.text, re.IGNORECASE):
            opened.find(ask("opens a network connection"))


def _copy(words: Sequence[Word], opened: Opened) -> None:
    ssh_options(read_args(words[1:], valued_options("scp") | {"-S", "-D"}), opened, "scp")


def _terminal(words: Sequence[Word], opened: Opened) -> None:
    """`tmux` and `screen` run their last operands."""
    args = read_args(words[1:], names_of("-L -S -f -t -n -s -c -x -y -F -e -p -h -T -X"), stop=True)
    rest = list(args.rest)
    if words[0].text.endswith("screen"):
        if rest:
            opened.add(Runs(rest, "screen", len(words) - len(rest)))
        return
    if rest and re.fullmatch(
        r"new|new-session|neww|new-window|splitw|split-window|respawn-\w+|run|run-shell|if|if-shell"
        r"|display-popup|popup|pipe-pane|pipep|send|send-keys|set-hook|bind|bind-key|confirm\w*"
        r"|command-prompt",
        rest[0].text,
    ):
        tail = read_args(rest[1:], names_of("-t -n -s -c -x -y -F -e -p -h -T -N"), stop=True)
        if tail.rest:
            opened.add(Code(joined([w for w in tail.rest if w.text not in ("Enter", "C-m")]),
                            "tmux"))  # fmt: skip


_CONTAINER_VALUES: Final = names_of(
    "-v --volume -e --env --env-file -p --publish -w --workdir -u --user --name --network --net -h"
    " --hostname --entrypoint -m --memory --cpus --mount -l --label --platform --restart"
    " --add-host --cap-add --cap-drop --device --security-opt --tmpfs --ulimit --shm-size --pid"
    " --ipc --userns --log-driver --log-opt --link --dns --gpus --cidfile --pull --runtime -c"
    " --cpu-shares --volumes-from --ip --cgroupns --uts --detach-keys --index --arch --annotation"
    " --pod --secret --expose --group-add --stop-signal --stop-timeout --health-cmd --sysctl"
    " --kernel-memory --memory-swap --cpuset-cpus --pids-limit --label-file --uidmap"
)
CONTAINER_GLOBALS: Final = names_of(
    "-H --host -c --context -l --log-level --config --tlscacert --tlscert --tlskey -f --file -p"
    " --project-name --profile --project-directory --root --runroot --url --connection --identity"
    " --namespace --address --env-file"
)


def _container(words: Sequence[Word], opened: Opened) -> None:
    rest = read_args(words[1:], CONTAINER_GLOBALS, stop=True).rest
    if rest and rest[0].text in ("compose", "container"):
        rest = read_args(rest[1:], CONTAINER_GLOBALS, stop=True).rest
    if not rest or rest[0].text not in ("run", "exec", "create"):
        return
    args = read_args(rest[1:], _CONTAINER_VALUES, stop=True)
    inner = args.rest[1:]
    entry = args.values("--entrypoint")
    for value in args.values("--health-cmd"):
        opened.add(Code(value, "container health check"))
    if entry and entry[0].text:
        inner = (entry[0], *inner)
    if inner and inner[0].text.startswith("-"):
        # Arguments of the image's own program.
        return
    if inner:
        at = None if entry else len(words) - len(inner)
        opened.add(Runs(inner, f"{words[0].text} {rest[0].text}", at))


KUBECTL_GLOBALS: Final = names_of(
    "-n --namespace --context --kubeconfig -s --server --cluster --user --token --as --as-group"
    " --certificate-authority --request-timeout --cache-dir -c --container -f --filename -l"
    " --selector -o --output --image -v --replicas"
)


def _kubectl(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], KUBECTL_GLOBALS)
    if not args.operands or args.operands[0].text not in ("exec", "run", "debug"):
        return
    texts = [word.text for word in words]
    if "--" in texts:
        at = texts.index("--") + 1
        if at < len(words):
            opened.add(Runs(words[at:], "kubectl exec", at))
    elif args.operands[0].text == "exec" and len(args.operands) > 2:
        opened.add(Runs(args.operands[2:], "kubectl exec"))


def _npm(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("npm") | {"-c", "--call"}, stop=True)
    rest = args.rest
    if not rest or rest[0].text not in ("exec", "x"):
        return
    tail = read_args(rest[1:], names_of("-c --call -p --package -w --workspace"), stop=True)
    for text in [*args.values("-c", "--call"), *tail.values("-c", "--call")]:
        opened.add(Code(text, "npm exec"))
    if tail.rest:
        opened.add(Runs(tail.rest, "npm exec", len(words) - len(tail.rest)))


def _vagrant(words: Sequence[Word], opened: Opened) -> None:
    for text in read_args(words[1:], frozenset(["-c", "--command"])).values("-c", "--command"):
        opened.add(Code(text, "vagrant ssh"))


def _nix(words: Sequence[Word], opened: Opened) -> None:
    texts = [word.text for word in words]
    for flag in ("-c", "--command"):
        if flag in texts and texts.index(flag) + 1 < len(words):
            at = texts.index(flag) + 1
            opened.add(Runs(words[at:], "nix", at))
            return


def _ip(words: Sequence[Word], opened: Opened) -> None:
    texts = [word.text for word in words]
    if "netns" in texts and "exec" in texts:
        at = texts.index("exec") + 2
        opened.find(ask("enters another namespace"))
        if at < len(words):
            opened.add(Runs(words[at:], "ip netns exec", at))


def _wget(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("wget"))
    for value in args.values("-e", "--execute"):
        if "askpass" in value.text.lower() or HOLE in value.text:
            opened.find(ask("a setting runs a program"))


def _cargo(words: Sequence[Word], opened: Opened) -> None:
    args = read_args(words[1:], valued_options("cargo"))
    for value in args.values("--config"):
        if re.search(r"rustc|wrapper|linker|runner|rustdoc|credential|alias", value.text):
            opened.find(ask("a setting runs a program"))


def _apt(words: Sequence[Word], opened: Opened) -> None:
    for value in read_args(words[1:], valued_options("apt")).values("-o", "-c"):
        if re.search(r"invoke|Dir::|::Run|Pager", value.text, re.IGNORECASE):
            opened.find(ask("a setting runs a program"))
            opened.add(Code(value.part(value.text.partition("=")[2]), "apt -o"))


SERVICES: Final = {
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"), _netcat),
    "scp": _copy, "sftp": _copy, "socat": _socat, "wget": _wget, "cargo": _cargo,
    **dict.fromkeys(("apt", "apt-get", "aptitude"), _apt),
    **dict.fromkeys(("tmux", "screen"), _terminal),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose", "lima"),
                    _container),
    **dict.fromkeys(("kubectl", "oc", "k3s", "microk8s"), _kubectl),
    "npm": _npm, "vagrant": _vagrant, "nix": _nix, "ip": _ip,
}  # fmt: skip
