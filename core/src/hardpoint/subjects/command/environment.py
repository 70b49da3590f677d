"""Variables that make programs load code or run something."""

from __future__ import annotations

import re
from typing import Final

from hardpoint.subjects.command.finding import Finding, ask
from hardpoint.subjects.command.opening import Code
from hardpoint.subjects.command.words import HOLE, Word

_LOADS: Final = re.compile(
    r"""LD_\w+ | DYLD_\w+ | BASH_ENV | ENV | IFS | PATH | CDPATH | HOME | XDG_CONFIG_(?:HOME|DIRS)
      | ZDOTDIR | PROMPT_COMMAND | PS[0-4] | SHELLOPTS | BASHOPTS | BASH_FUNC_\w+ | FPATH
      | PYTHON(?:STARTUP|HOME|BREAKPOINT|INSPECT|EXECUTABLE|WARNINGS|USERBASE)
      | PERL5(?:OPT|DB) | PERLLIB | RUBYOPT | (?:_?JAVA|JDK_JAVA)(?:_TOOL)?_OPTIONS
      | GIT_(?:EXEC_PATH|CONFIG\w*|TEMPLATE_DIR|DIR|ALLOW_PROTOCOL|TRACE2?\w*|ASKPASS_\w+)
      | GCONV_PATH | GLIBC_TUNABLES | NLSPATH | LOCPATH | MALLOC_\w+
      | OPENSSL_(?:CONF|ENGINES|MODULES)
      | VIMINIT | EXINIT | VIM | MAKEFLAGS | GNUMAKEFLAGS | MAKEFILES | TAR_OPTIONS | RSYNC_\w+
      | RIPGREP_CONFIG_PATH | npm_config_(?:script_shell|node_options|shell|git|editor|globalconfig
          |userconfig)
      | CARGO_(?:BUILD_RUSTC\w*|TARGET_\w+_(?:RUNNER|LINKER)|HOME|ALIAS_\w+)
      | GOFLAGS | GOROOT | GOTOOLDIR | LUA_(?:INIT|PATH|CPATH)\w* | PHPRC | PHP_INI_SCAN_DIR
      | R_PROFILE\w* | ERL_FLAGS | ERL_AFLAGS | ELIXIR_ERL_OPTIONS | JULIA_LOAD_PATH | NODE_REPL\w*
      | DOTNET_STARTUP_HOOKS | COR(?:ECLR)?_PROFILER\w* | GTK_MODULES | QT_PLUGIN_PATH
      | HISTFILE | HISTSIZE | HISTFILESIZE | HISTCONTROL | HISTIGNORE | TERMINFO | TERMCAP
      | PSQLRC | MYSQL_HOME | DOCKER_CONFIG | KUBECONFIG | CURL_HOME | WGETRC | INPUTRC | SSH_SK\w*
      | GNUPGHOME | CLASSPATH | ANSIBLE_CONFIG | TF_CLI_CONFIG_FILE | POSIXLY_CORRECT_\w*
    """,
    re.VERBOSE,
)
# The value is a program, or shell text.
_RUNS: Final = re.compile(
    r"""(?:GIT_|MAN|SYSTEMD_|AWS_|BAT_|DELTA_|PSQL_|GH_|HUB_)?PAGER | (?:GIT_|SUDO_|KUBE_|HG)?EDITOR
      | VISUAL | FCEDIT | GIT_SEQUENCE_EDITOR | BROWSER | GH_BROWSER | LESS(?:OPEN|CLOSE|EDIT)?
      | GIT_(?:SSH|SSH_COMMAND|ASKPASS|EXTERNAL_DIFF|PROXY_COMMAND) | (?:SSH|SUDO)_ASKPASS
      | RSYNC_RSH | CVS_RSH | RUSTC(?:_WRAPPER|_WORKSPACE_WRAPPER)? | RUSTDOC | CC | CXX | CPP | LD
      | AR | AS | MAKE | SHELL | CONFIG_SHELL | FZF_DEFAULT_(?:COMMAND|OPTS) | PYTEST_ADDOPTS
      | HELM_DIFF_\w+ | KUBECTL_EXTERNAL_DIFF | DIFFPROG | NODE_OPTIONS | PROMPT | TMUX_CMD
    """,
    re.VERBOSE,
)
_HARMLESS_PROGRAMS: Final = re.compile(
    r"|(?:cat|less|more|true|:|head|tail|vim?|nano|code|ed|emacs|echo|bat|firefox|gcc|g\+\+|cc|c\+\+"
    r"|clang(?:\+\+)?|sccache|ccache|musl-gcc|ld|ar|as|make|sh|bash|/bin/(?:ba|z)?sh|zsh)(?:-\d+)?"
    r"(?: (?:-[A-Za-z+-]+|--wait))*|-[A-Za-z]+|--max[-_]old[-_]space[-_]size=\d+"
    r"|--no-warnings|--enable-source-maps|-(?:q|v|x|s)+"
)
# Search paths: a folder of the project holds the project's own code.
_SEARCH: Final = frozenset({"PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB", "GOPATH"})
_OWN: Final = re.compile(r"\.|(?:\./|\0/)?[\w.-][\w./-]*|\0|")
# Known to be read as data only; a rule for the program may cover these.
_HARMLESS: Final = re.compile(
    r"""CI | DEBUG | VERBOSE | QUIET | LANG | LANGUAGE | LC_\w+ | TZ | TERM | COLORTERM | COLUMNS
      | LINES | (?:NO|FORCE|CLICOLOR)_?COLOR | CLICOLOR\w* | NODE_ENV | RAILS_ENV | RACK_ENV
      | FLASK_ENV | FLASK_DEBUG | DJANGO_DEBUG | APP_ENV | GO_ENV | MIX_ENV | RUST_LOG
      | RUST_BACKTRACE | RUST_MIN_STACK | CARGO_TERM_COLOR | CARGO_INCREMENTAL | PORT | HOST
      | PYTHONUNBUFFERED | PYTHONDONTWRITEBYTECODE | PYTHONHASHSEED | PYTHONIOENCODING | PYTHONUTF8
      | PY_COLORS | DEBIAN_FRONTEND | GIT_(?:TERMINAL_PROMPT|OPTIONAL_LOCKS|PAGER_IN_USE
          |AUTHOR_\w+|COMMITTER_\w+)
      | GOOS | GOARCH | CGO_ENABLED | OMP_NUM_THREADS | CUDA_VISIBLE_DEVICES | SOURCE_DATE_EPOCH
      | TEST_\w+ | LOG_LEVEL | LOGLEVEL | UPDATE_SNAPSHOTS?
    """,
    re.VERBOSE,
)


def is_harmless(name: str) -> bool:
    """Whether a rule for a program also covers it with this variable set."""
    return _HARMLESS.fullmatch(name) is not None


def check_assignment(name: str, value: Word) -> tuple[list[Finding], list[Code]]:
    """What setting a variable lets programs load, and the text that they will run."""
    if _RUNS.fullmatch(name):
        text = value.text
        if _HARMLESS_PROGRAMS.fullmatch(text):
            return [], []
        code = [] if name in ("NODE_OPTIONS", "PYTEST_ADDOPTS", "LESS") else [Code(value, name)]
        return [ask(f"programs run what {name} says")], code
    if name in _SEARCH:
        parts = re.split(r"[:;]", value.text)
        if all(_OWN.fullmatch(part) and ".." not in part for part in parts):
            return [], []
        return [ask(f"{name} loads foreign code")], []
    if _LOADS.fullmatch(name):
        return [ask(f"{name} changes which code or settings programs load")], []
    if re.search(r"[$`]\(", value.text) and HOLE not in value.text and "[" in value.text:
        return [ask("the value may be evaluated as code")], []
    return [], []
