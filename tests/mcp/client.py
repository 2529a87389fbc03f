"""A client by the protocol's own library: what creel serves is what others expect.

Run as `client.py CREEL` in the folder of a project whose session runs. Prints `ok`, or fails at what is not as it should be.
The library checks every answer against the tool's own schema.
"""

import asyncio
import sys

from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client


async def told(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, (tool, result)
    return result.structured_content


async def refused(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    assert result.is_error, (tool, result)
    return result.content[0].text


async def wrong(session, tool, **arguments):
    try:
        result = await session.call_tool(tool, arguments)
    except MCPError as error:
        return error.error
    raise AssertionError((tool, result))


async def use(session):
    hello = await session.initialize()
    assert hello.server_info.name == "creel", hello
    assert "task_list" in hello.instructions, hello
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools["task_list"].annotations.read_only_hint is True
    assert tools["task_add"].annotations.read_only_hint is False
    assert all(tool.output_schema for tool in tools.values())

    first = await told(session, "task_add", goal="one", labels=["a"])
    second = await told(session, "task_add", goal="two", dependsOn=[first["id"]])
    assert second["state"] == "created", second
    assert (await told(session, "task_start", taskId=first["id"]))["state"] == "active"
    assert (await told(session, "task_complete", taskId=first["id"], result="done"))["result"] == "done"
    assert (await told(session, "task_list", labels=["a"]))["taskCount"] == 1
    assert (await told(session, "session_status"))["tasks"]["completed"] == 1
    assert first["id"] in await refused(session, "task_get", taskId="nope")
    assert (await wrong(session, "task_get")).code == -32602
    assert (await wrong(session, "task_add", goal="x" * 10_000_000)).code == -32602

    many = [told(session, "task_add", goal=str(n)) for n in range(50)]
    assert len({task["id"] for task in await asyncio.gather(*many)}) == 50


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await use(session)
    print("ok")


asyncio.run(main())
