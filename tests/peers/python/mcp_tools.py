"""An MCP server made with the official SDK, for the tests of the tools that it offers.

usage: mcp_tools.py [PORT] [--json] [--bearer TOKEN]

Without a port it speaks over standard input and output, with one over streamable HTTP at
http://127.0.0.1:PORT/mcp, where `--json` makes it answer without event streams and `--bearer` makes it
ask for a token. That a call was cancelled is noted in the file that the environment variable NOTES
names.
"""

import argparse
import os
import sys

import anyio
import mcp_types as types
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("mcp_tools")


def note(word: str) -> None:
    path = os.environ.get("NOTES")
    if path:
        with open(path, "a", encoding="utf-8") as notes:
            notes.write(word + "\n")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Greets somebody."""
    return f"hello {name}"


@server.tool(structured_output=False)
def picture() -> list:
    """Shows something that is no text."""
    image = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
    return [types.TextContent(type="text", text="look"), image]


@server.tool()
async def slow(steps: int, seconds: float, ctx: Context) -> str:
    """Takes its time and says how far it is."""
    try:
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
            await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "done"


@server.tool()
def fail(message: str) -> str:
    """Always fails."""
    raise ToolError(message)


@server.tool()
def crash() -> str:
    """Ends the process in the middle of the call."""
    os._exit(3)


@server.tool(structured_output=False)
def large(size: int) -> str:
    """Says more than anybody wants to hear."""
    return "x" * size


@server.tool()
def pid() -> int:
    """The number of the process."""
    return os.getpid()


@server.tool(structured_output=False)
def environment() -> str:
    """The names and values of all environment variables."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool, and says so."""

    def grown() -> str:
        return name

    server.add_tool(grown, name=name, description="Was not there before.")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool(annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True))
def wipe() -> str:
    """Destroys everything."""
    return "gone"


@server.tool()
def child() -> int:
    """Starts a process that outlives its parent unless somebody ends it."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        os.execvp("sleep", ["sleep", "600"])
    os.close(write)
    return int(os.read(read, 32))


class Bearer:
    """Lets nobody in without the token."""

    def __init__(self, app, token: str) -> None:
        self.app = app
        self.expected = f"Bearer {token}".encode()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != self.expected:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await self.app(scope, receive, send)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", nargs="?", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bearer")
    options = parser.parse_args()
    print("a line on standard error", file=sys.stderr)
    if options.port is None:
        server.run("stdio")
        return
    app = server.streamable_http_app(json_response=options.json)
    if options.bearer:
        app = Bearer(app, options.bearer)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="error", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
