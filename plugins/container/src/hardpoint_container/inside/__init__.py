"""What runs inside the sandbox: standard library only, Python 3.9 or newer, sent as one argument.

`runner` is PID 1 and supervises commands, `files` works beneath the workspace, `forward` carries
connections to the egress gate. Nothing here is imported by Hardpoint's own process.
"""
