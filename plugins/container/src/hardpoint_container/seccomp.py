"""The system calls that a sandbox may make. An own list: what is not named here does not exist.

Unknown calls answer ENOSYS, so that programs fall back; refused ones answer EPERM. Compared with
the profiles that container engines ship, these are gone: new namespaces, mounts, tracing and
reading other processes, kernel keyrings, io_uring, BPF, performance events, file handles, 32-bit
calls, and every socket family that a network namespace does not contain (AF_VSOCK reaches a
virtual machine's host).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

ALLOWED: Final = {
    "files": """
        access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3
        faccessat faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2
        fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fremovexattr
        fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futimesat
        getcwd getdents getdents64 getxattr ioctl lchown lchown32 lgetxattr link linkat listxattr
        llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat
        newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read
        readahead readlink readlinkat readv removexattr rename renameat renameat2 rmdir sendfile
        sendfile64 setxattr splice stat stat64 statfs statfs64 statx symlink symlinkat sync
        sync_file_range sync_file_range2 syncfs tee truncate truncate64 umask unlink unlinkat utime
        utimensat utimensat_time64 utimes vmsplice write writev
        inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
    """,
    "memory": """
        brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mmap2 mprotect mremap
        msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
        shmat shmctl shmdt shmget get_mempolicy
    """,
    "processes": """
        execve execveat exit exit_group fork vfork wait4 waitid waitpid kill tkill tgkill
        getpgid getpgrp getpid getppid getsid gettid setpgid setsid prctl arch_prctl
        capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32
        getresgid getresgid32 getresuid getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid
        setfsuid32 setgid setgid32 setgroups setgroups32 setregid setregid32 setresgid setresgid32
        setresuid setresuid32 setreuid setreuid32 setuid setuid32
        getpriority setpriority getrlimit ugetrlimit setrlimit prlimit64 getrusage times
        sched_getaffinity sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min
        sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity
        sched_setattr sched_setparam sched_setscheduler sched_yield ioprio_get ioprio_set
        pidfd_open pidfd_send_signal seccomp landlock_add_rule landlock_create_ruleset
        landlock_restrict_self
    """,
    "threads and signals": """
        futex futex_time64 futex_waitv get_robust_list set_robust_list get_thread_area
        set_thread_area set_tid_address set_tls rseq restart_syscall pause
        rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
        rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaction sigaltstack signal
        signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend
        semctl semget semop semtimedop semtimedop_time64 msgctl msgget msgrcv msgsnd ipc
        mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend
        mq_timedsend_time64 mq_unlink
    """,
    "waiting and time": """
        alarm clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
        clock_nanosleep_time64 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2
        epoll_wait eventfd eventfd2 getitimer gettimeofday nanosleep _newselect poll ppoll
        ppoll_time64 pselect6 pselect6_time64 select setitimer time timer_create timer_delete
        timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
        timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64
        io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
    """,
    "sockets and pipes": """
        accept accept4 bind connect getpeername getsockname getsockopt listen pipe pipe2 recv
        recvfrom recvmmsg recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown
        socketpair
    """,
    "about the system": "getcpu getrandom sysinfo uname",
}

REFUSED: Final = """
    unshare setns mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsmount
    fsconfig fspick mount_setattr ptrace process_vm_readv process_vm_writev process_madvise
    process_mrelease kcmp pidfd_getfd keyctl add_key request_key io_uring_setup io_uring_enter
    io_uring_register userfaultfd perf_event_open bpf fanotify_init fanotify_mark open_by_handle_at
    name_to_handle_at quotactl quotactl_fd acct swapon swapoff reboot kexec_load kexec_file_load
    init_module finit_module delete_module syslog vhangup sethostname setdomainname settimeofday
    clock_settime clock_settime64 clock_adjtime clock_adjtime64 adjtimex iopl ioperm modify_ldt
    mbind set_mempolicy migrate_pages move_pages lookup_dcookie nfsservctl personality memfd_secret
"""

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
NEW_NAMESPACES: Final = 0x7E020000
"""Every CLONE_NEW* flag of `clone`."""
TIOCSTI: Final = 0x5412
"""Would type into a terminal."""
ENOSYS: Final = 38
EAFNOSUPPORT: Final = 97
PERSONALITIES: Final = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
ARCHITECTURES: Final = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
"""64-bit only: the 32-bit calls of the same machine are a second, larger door."""


def profile() -> dict[str, Any]:
    """The profile in the form that Podman and Docker read."""
    allowed = {name for names in ALLOWED.values() for name in names.split()} - {"ioctl"}
    rules: list[dict[str, Any]] = [
        _rule(sorted(allowed), "SCMP_ACT_ALLOW"),
        _rule(["ioctl"], "SCMP_ACT_ALLOW", (1, TIOCSTI, 0, "SCMP_CMP_NE")),
        # No new namespaces. clone3 hides its flags in memory, so it is not there: libc falls back.
        _rule(["clone"], "SCMP_ACT_ALLOW", (0, NEW_NAMESPACES, 0, "SCMP_CMP_MASKED_EQ")),
        _rule(["clone3"], "SCMP_ACT_ERRNO", errno=ENOSYS),
        _rule(sorted(set(REFUSED.split()) - {"personality"}), "SCMP_ACT_ERRNO", errno=1),
    ]
    # What programs expect when a kernel lacks a family; netlink and vsock among them.
    rules.append(
        _rule(["socket"], "SCMP_ACT_ERRNO", (0, AF_INET6 + 1, 0, "SCMP_CMP_GE"), errno=EAFNOSUPPORT)
    )
    for family in (AF_UNIX, AF_INET, AF_INET6):
        rules.append(_rule(["socket"], "SCMP_ACT_ALLOW", (0, family, 0, "SCMP_CMP_EQ")))
    for value in PERSONALITIES:
        rules.append(_rule(["personality"], "SCMP_ACT_ALLOW", (0, value, 0, "SCMP_CMP_EQ")))
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in ARCHITECTURES],
        "syscalls": rules,
    }


def _rule(
    names: list[str], action: str, *args: tuple[int, int, int, str], errno: int | None = None
) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": action}
    if args:
        rule["args"] = [
            {"index": index, "value": value, "valueTwo": second, "op": op}
            for index, value, second, op in args
        ]
    if errno is not None:
        rule["errnoRet"] = errno
    return rule


def write_profile(folder: Path) -> Path:
    """Write the profile where an engine can read it; the file's path."""
    text = json.dumps(profile(), indent=1)
    path = folder / "seccomp.json"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        folder.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    return path
