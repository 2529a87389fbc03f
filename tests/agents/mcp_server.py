#!/usr/bin/env python3
"""An MCP server with one tool, `create_issue`, which leaves a file: mcp_server.py FILE"""

import json
import sys
from pathlib import Path

TOOL = {"name": "create_issue", "description": "Creates an issue.",
        "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}

for line in sys.stdin:
    request = json.loads(line)
    match request.get("method"):
        case "initialize":
            version = request["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "github", "version": "1"}}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            Path(sys.argv[1]).touch()
            result = {"content": [{"type": "text", "text": "created"}]}
        case _:
            result = {}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
