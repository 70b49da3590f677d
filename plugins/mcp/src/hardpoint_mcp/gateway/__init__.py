"""The gateway: every tool, resource and prompt as one MCP server, in both protocol eras.

It stands on the SDK's low-level server for transports, sessions and the envelope; what a request
means is decided here. Imported only by `hardpoint serve`.
"""
