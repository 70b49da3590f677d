"""What sends data away: in requests, names, files and bare connections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hardpoint.subjects.command import places
from hardpoint.subjects.command.args import read_args
from hardpoint.subjects.command.finding import Check, Finding, Input, ask
from hardpoint.subjects.command.option_table import valued_options
from hardpoint.subjects.command.tables import names_of
from hardpoint.subjects.command.words import Word

SECRET_NAME: Final = re.compile(r"key|token|secret|passw|cred|auth|private", re.IGNORECASE)
_CURL_DATA: Final = ("-d", "--data", "--data-binary", "--data-ascii", "--json", "--data-urlencode")


def sends_hidden(words: Sequence[Word]) -> list[Finding]:
    """Data in a host name or URL that is only put together at run time."""
    for word in words:
        if word.substitutions:
            return [ask("what is sent is put together at run time")]
        if any(SECRET_NAME.search(name) for name in word.variables):
            return [ask("the value of a secret variable leaves in a name or URL")]
    return []


def _curl(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("curl"))
    found = sends_hidden([*args.operands, *args.values("--url", "--url-query")])
    for name in _CURL_DATA:
        for value in args.values(name):
            text = value.text
            if text.startswith("@") or (name == "--data-urlencode" and re.match(r"\w*@", text)):
                found.append(ask("sends a file away"))
            elif value.substitutions:
                found.append(ask("what is sent is put together at run time"))
    if any(value.substitutions for value in args.values("--data-raw", "--form-string")):
        found.append(ask("what is sent is put together at run time"))
    for value in args.values("-F", "--form"):
        if re.search(r"=[@<]", value.text) or value.substitutions:
            found.append(ask("sends a file away"))
    for value in args.values("-H", "--header", "-b", "--cookie", "-A", "-e", "-u"):
        if value.substitutions or value.text.startswith("@"):
            found.append(ask("what is sent is put together at run time"))
    if args.has("-T", "--upload-file"):
        found.append(ask("uploads a file"))
    if args.has("-K", "--config"):
        found.append(ask("options come from a file"))
    if any(value.text.upper() == "DELETE" for value in args.values("-X", "--request")):
        found.append(ask("deletes at the server"))
    if args.has("-Q", "--quote", "--variable"):
        found.append(ask("runs commands at the server or sends a file"))
    for value in args.values("-o", "--output", "-c", "--cookie-jar", "-D", "--dump-header"):
        finding = places.writing(value)
        found += [finding] if finding else []
    return found + _odd_urls(args.operands)


def _odd_urls(operands: Sequence[Word]) -> list[Finding]:
    if any(
        re.match(r"(?:telnet|gopher|dict|smtps?|imaps?|tftp|ldaps?):", w.text) for w in operands
    ):
        return [ask("opens a raw connection")]
    return []


def _wget(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("wget"))
    found = sends_hidden(args.operands)
    if args.has("--post-file", "--body-file"):
        found.append(ask("sends a file away"))
    for value in args.values("--post-data", "--body-data", "--header", "--user-agent", "-U"):
        if value.substitutions:
            found.append(ask("what is sent is put together at run time"))
    for value in args.values("-O", "--output-document", "-P", "--directory-prefix"):
        finding = places.writing(value)
        found += [finding] if finding else []
    if any(value.text.upper() == "DELETE" for value in args.values("--method")):
        found.append(ask("deletes at the server"))
    return found


def _httpie(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], valued_options("http"))
    found = sends_hidden(args.operands)
    if any(re.search(r"(?:^|=|:=)@|^[\w.-]+@(?!\w+\.)", w.text) for w in args.operands):
        found.append(ask("sends a file away"))
    if any(word.text.upper() == "DELETE" for word in args.operands[:1]):
        found.append(ask("deletes at the server"))
    if stdin.given:
        found.append(ask("sends its input away"))
    return found


def _netcat(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    args = read_args(words[1:], names_of("-p -s -w -i -q -x -X -e -c"))
    if args.has("-z", "-h", "--help", "--version") and not stdin.given:
        return []
    return [ask("moves data over a bare connection")]


def _lookup(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    found = sends_hidden(words[1:])
    return found or ([ask("looks up what it is given")] if stdin.given else [])


def _ssh(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    found = sends_hidden(words[1:2])
    return [*found, ask("sends its input to another machine")] if stdin.given else found


def _openssl(program: str, words: Sequence[Word], stdin: Input) -> list[Finding]:
    if any(word.text in ("s_client", "s_server") for word in words[1:]) and stdin.given:
        return [ask("moves data over a bare connection")]
    return []


SENDING: Final[dict[str, Check]] = {
    "curl": _curl, "wget": _wget, "wget2": _wget,
    **dict.fromkeys(("http", "https", "xh", "xhs"), _httpie),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"), _netcat),
    **dict.fromkeys(("dig", "drill", "host", "nslookup", "kdig", "doggo", "delv", "ping", "ping6",
                     "traceroute", "getent", "whois", "mtr", "nmap", "fping", "resolvectl",
                     "lynx", "w3m", "links", "elinks", "aria2c", "fetch", "axel"), _lookup),
    "ssh": _ssh, "sftp": _ssh, "openssl": _openssl,
}  # fmt: skip
