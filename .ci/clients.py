"""Asks quipu's tools for agents with the official Python client, over standard input and HTTP, in both
versions of the protocol. Run by mcp.mjs: python clients.py QUIPU SESSION URL TOKEN
The environment names the ledger."""

import os
import sys

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

quipu, session, url, token = sys.argv[1:]
TOOLS = ["recall", "sessions", "read", "files", "usage"]


async def ask(client):
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == TOOLS, listed
    calls = {
        "recall": {"words": "fishermen"},
        "sessions": {},
        "read": {"session": session},
        "files": {},
        "usage": {"by": "model"},
    }
    for tool, arguments in calls.items():
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, f"{tool}: an error"
        [content] = result.content
        assert result.structured_content is None, f"{tool}: the text is there twice"
        assert len(content.text) > 100, f"{tool}: {len(content.text)} characters"
    wrong = await client.call_tool("read", {"session": "nothing"})
    assert wrong.is_error, "a session that does not exist"
    templates = await client.list_resource_templates()
    assert [it.uri_template for it in templates.resource_templates] == ["quipu://session/{id}"]
    resources = await client.list_resources()
    read = await client.read_resource(resources.resources[0].uri)
    assert len(read.contents) == 1 and read.contents[0].text


async def over(name, open_transport):
    for mode, version in [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")]:
        async with Client(open_transport(), mode=mode) as client:
            assert client.protocol_version == version, client.protocol_version
            await ask(client)
        print(f"ok  Python client over {name}, {mode}: {version}")


async def main():
    server = StdioServerParameters(command=quipu, args=["mcp"], env=dict(os.environ))
    await over("standard input", lambda: stdio_client(server))
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        await over("HTTP", lambda: streamable_http_client(f"{url}/mcp", http_client=http))


anyio.run(main)
