"""A scripted model on loopback, for real agents: the chat, responses, messages and Gemini APIs, as far as agents need them.

A script is a list of rules `(words, actions)`. The last message of the user that contains the words of a rule decides; each action
is one answer of the model, in order, and the last one is repeated; a failure comes instead of all while `Model.refuses`. Requests are kept in `Model.requests`.
"""

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What agents call their tools. The first one that a request offers is used.
NAMES = {
    "write": ["Write", "write_file", "WriteFile", "write", "create", "Create", "text_editor", "developer__write",
              "developer__text_editor", "shell"],
    "shell": ["Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell", "developer__shell", "Shell", "Execute",
              "execute_command"],
    "ask": ["AskUserQuestion", "ask_user_question", "ask_user", "question", "request_user_input", "AskUser"],
    "search": ["ToolSearch", "tool_search", "tool_search_tool_regex", "tool_search_tool"],
}


def say(text):
    return {"say": text}


def write(path, line):
    patch = f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {path}\n+{line}\n*** End Patch\nEOF"  # codex takes this for an edit
    return {"use": "write", "values": {"path": path, "content": f"{line}\n"}, "command": patch}


def shell(command):
    return {"use": "shell", "values": {"command": command}, "command": command}


def use(name, server="creel", **values):
    """A tool whose name ends with these words."""
    return {"use": name, "server": server, "values": values}


def ask(question, *labels):
    options = [{"label": label, "description": label} for label in labels]
    form = {"question": question, "header": "Choice", "options": options, "multiSelect": False, "id": "choice"}
    return {"use": "ask", "values": {"questions": [form], "question": question, "choices": list(labels), "options": list(labels)}}


def fail(status, body, **headers):
    return {"fail": status, "body": body, "headers": {name.replace("_", "-"): value for name, value in headers.items()}}


@dataclass
class Request:
    api: str
    model: str
    tools: dict  # name: schema
    items: list  # ("user" | "say" | "call" | "result", text)
    rule: str = ""
    path: str = ""
    schema: dict | None = None  # of the answer
    at: float = field(default_factory=time.time)

    def text(self):
        return "\n".join(text for _, text in self.items)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Agents end in the middle of a request: that is what some scenarios are about."""


class Model:
    def __init__(self, rules, project, has_tools=True):
        self.rules, self.project, self.requests, self.has_tools, self.lock = rules, project, [], has_tools, threading.Lock()
        self.refuses = True  # whether rules with a failure fail
        self.calls = []  # the names of the tools that it has called, but for those that search tools
        self.server = Server(("127.0.0.1", 0), handler(self))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def next_action(self, request):
        # Agents also ask for titles, routes and the like.
        if request.schema or (self.has_tools and not request.tools):
            return say(json.dumps(filled(request.schema, {})) if request.schema else "Work")
        for at in range(len(request.items) - 1, -1, -1):
            kind, text = request.items[at]
            rule = next((rule for rule in self.rules if kind == "user" and rule[0] in text), None)
            if rule is None:
                continue
            words, actions = rule
            calls = [name for kind, name in request.items[at:] if kind == "call" and name not in NAMES["search"]]
            request.rule = words
            with self.lock:
                self.requests.append(request)
            failures = [action for action in actions if "fail" in action]
            if failures and self.refuses:
                return failures[0]
            steps = [action for action in actions if "fail" not in action]
            return steps[min(len(calls), len(steps) - 1)]
        with self.lock:
            self.requests.append(request)
        return say("Nothing to do.")

    def resolved(self, action, request, tools):
        """The action with a tool that the request offers: `(name, arguments)`, or text."""
        if "use" not in action:
            return action
        wanted, values = action["use"], action["values"]
        if "path" in values:  # some agents accept only a whole path
            values = {**values, "path": f"{self.project}/{values['path']}"}
        names = [name for name in NAMES.get(wanted, []) if name in tools] or [
            name for name in tools if wanted not in NAMES and name.endswith(wanted)]
        search = next((name for name in NAMES["search"] if name in tools), None)
        if names and names[0] in NAMES["shell"] and "command" in action:
            values = {"command": action["command"]}
        elif names:
            pass
        elif wanted == "write":
            return self.resolved({"use": "shell", "values": {}, "command": action["command"]}, request, tools)
        elif search and any(kind == "call" and text == search for kind, text in request.items):
            names = [f"mcp__{action['server']}__{wanted}"]  # a known name can be called, though it is not offered
        elif search:
            names, values = [search], {"query": f"select:mcp__{action['server']}__{wanted}" if search == "ToolSearch" else wanted}
        else:
            return say(f"I have no tool `{wanted}`. <promise>COMPLETE</promise>")
        return {"call": names[0], "arguments": filled(tools.get(names[0]), values)}


MEANS = {
    "path": r"^(absolute_?)?(file_?)?path$",
    "content": r"^(content|contents|file_?text|text)$",
    "command": r"^(command|cmd|script)$",
}


def filled(schema, values):
    """Arguments for a tool: what its schema asks for, by the names of its properties."""
    schema = schema or {}
    arguments = {}
    for name, property in (schema.get("properties") or {}).items():
        kinds = property.get("type") or next((one.get("type") for one in property.get("anyOf", []) if one.get("type") != "null"), "string")
        kind = next((one for one in kinds if one != "null"), "string") if isinstance(kinds, list) else kinds
        known = next((key for key, form in MEANS.items() if re.match(form, name, re.I) and key in values), None)
        if name in values or known:
            value = values[name if name in values else known]
            if name == "command" and "path" in values:  # an editor with commands
                value = next((word for word in property.get("enum", []) if word in ("write", "create")), "create")
            elif kind == "array" and isinstance(value, str):
                value = ["bash", "-lc", value]
            elif name == "questions":
                items = property.get("items", {})
                items = schema.get("$defs", {}).get(items.get("$ref", "").rpartition("/")[2], items)
                allowed = items.get("properties", {})
                value = [{key: part for key, part in one.items() if not allowed or key in allowed} for one in value]
            arguments[name] = value
        elif name == "command" and "path" in values:
            arguments[name] = next((word for word in property.get("enum", []) if word in ("write", "create")), "create")
        elif name in (schema.get("required") or []):
            empty = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}}
            arguments[name] = property["enum"][0] if property.get("enum") else empty.get(kind, "scripted")
    return arguments or values


def answer_schema(body):
    found = [
        body.get("generationConfig", {}).get("responseJsonSchema"), body.get("generationConfig", {}).get("responseSchema"),
        ((body.get("response_format") or {}).get("json_schema") or {}).get("schema"),
        ((body.get("text") or {}).get("format") or {}).get("schema"), ((body.get("output_config") or {}).get("format") or {}).get("schema"),
    ]
    return next((schema for schema in found if schema), None)


# The four APIs: what a request says, and how an answer is written.

def texts(content):
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text") or "" for block in content or [] if isinstance(block, dict))


def read_messages(body):
    items = []
    for message in body.get("messages", []):
        blocks = message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": message["content"]}]
        for block in blocks:
            match block.get("type"):
                case "text":
                    items.append(("user" if message["role"] == "user" else "say", block["text"]))
                case "tool_use":
                    items.append(("call", block["name"]))
                case "tool_result":
                    items.append(("result", texts(block.get("content"))))
    return {tool["name"]: tool.get("input_schema") for tool in body.get("tools") or []}, items


def read_chat(body):
    items = []
    for message in body.get("messages", []):
        match message["role"]:
            case "user":
                items.append(("user", texts(message.get("content"))))
            case "assistant":
                items.append(("say", texts(message.get("content"))))
                items += [("call", call["function"]["name"]) for call in message.get("tool_calls") or []]
            case "tool":
                items.append(("result", texts(message.get("content"))))
    tools = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
    return {tool["name"]: tool.get("parameters") for tool in tools}, items


def read_responses(body):
    items = []
    entries = body.get("input") or []
    for entry in [{"role": "user", "content": entries}] if isinstance(entries, str) else entries:
        match entry.get("type", "message"):
            case "message":
                if entry["role"] in ("user", "assistant"):
                    items.append(("user" if entry["role"] == "user" else "say", texts(entry.get("content"))))
            case "function_call" | "custom_tool_call":
                items.append(("call", entry["name"]))
            case "function_call_output" | "custom_tool_call_output":
                output = entry.get("output")
                items.append(("result", output if isinstance(output, str) else json.dumps(output)))
    tools = {}
    for tool in body.get("tools") or []:
        if tool.get("type") == "function":
            tools[tool["name"]] = tool.get("parameters")
        elif tool.get("type") == "namespace":
            for inner in tool.get("tools", []):
                tools[inner["name"]] = {**(inner.get("parameters") or {}), "namespace": tool["name"]}
    return tools, items


def read_gemini(body):
    items = []
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if "functionCall" in part:
                items.append(("call", part["functionCall"]["name"]))
            elif "functionResponse" in part:
                items.append(("result", json.dumps(part["functionResponse"].get("response"))))
            elif "text" in part:
                items.append(("user" if content.get("role") == "user" else "say", part["text"]))
    tools = [tool for group in body.get("tools") or [] for tool in group.get("functionDeclarations", [])]
    return {tool["name"]: tool.get("parametersJsonSchema") or tool.get("parameters") for tool in tools}, items


def lowered(schema):
    """Gemini's schemas have types in capitals."""
    if isinstance(schema, dict):
        return {key: value.lower() if key == "type" and isinstance(value, str) else lowered(value) for key, value in schema.items()}
    return [lowered(one) for one in schema] if isinstance(schema, list) else schema


def write_messages(model, action, name):
    call = action.get("call")
    block = ({"type": "tool_use", "id": f"toolu_{name}", "name": call, "input": action["arguments"]} if call
             else {"type": "text", "text": action["say"]})
    usage = {"input_tokens": 100, "output_tokens": 10}
    message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": model, "content": [block],
               "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None, "usage": usage}
    delta = ({"type": "input_json_delta", "partial_json": json.dumps(action["arguments"])} if call
             else {"type": "text_delta", "text": action["say"]})
    start = {**block, "input": {}} if call else {"type": "text", "text": ""}
    events = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]
    return message, [(event["type"], event) for event in events]


def write_chat(model, action, name):
    call = action.get("call")
    head = {"id": f"chatcmpl-{name}", "created": 1, "model": model}
    calls = [{"index": 0, "id": f"call_{name}", "type": "function",
              "function": {"name": call, "arguments": json.dumps(action["arguments"])}}] if call else None
    said = {"role": "assistant", "content": None if call else action["say"], **({"tool_calls": calls} if call else {})}
    end = "tool_calls" if call else "stop"
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    whole = {**head, "object": "chat.completion", "choices": [{"index": 0, "message": said, "finish_reason": end}], "usage": usage}
    chunk = {**head, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return whole, [(None, event) for event in events] + [(None, "[DONE]")]


def write_responses(model, action, name):
    call = action.get("call")
    if call:
        item = {"id": f"fc_{name}", "type": "function_call", "status": "completed", "call_id": f"call_{name}", "name": call,
                "arguments": json.dumps(action["arguments"])}
        if action.get("namespace"):
            item["namespace"] = action["namespace"]
    else:
        item = {"id": f"msg_{name}", "type": "message", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": action["say"], "annotations": []}]}
    usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 110}
    whole = {"id": f"resp_{name}", "object": "response", "created_at": 1, "status": "completed", "model": model, "output": [item],
             "usage": usage, "error": None, "incomplete_details": None}
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": begun}]
    blank = {**item, "arguments": ""} if call else {**item, "content": []}
    events.append({"type": "response.output_item.added", "output_index": 0, "item": {**blank, "status": "in_progress"}})
    if call:
        events.append({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": item["id"], "arguments": item["arguments"]})
    else:
        at = {"output_index": 0, "item_id": item["id"], "content_index": 0}
        events += [
            {"type": "response.content_part.added", **at, "part": {"type": "output_text", "text": "", "annotations": []}},
            {"type": "response.output_text.delta", **at, "delta": action["say"]},
            {"type": "response.output_text.done", **at, "text": action["say"]},
            {"type": "response.content_part.done", **at, "part": item["content"][0]},
        ]
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return whole, [(event["type"], {**event, "sequence_number": at}) for at, event in enumerate(events)]


def write_gemini(model, action, name):
    call = action.get("call")
    part = {"functionCall": {"id": name, "name": call, "args": action["arguments"]}} if call else {"text": action["say"]}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    whole = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
             "usageMetadata": usage, "modelVersion": model, "responseId": name}
    return whole, [(None, whole)]


APIS = [
    (r"/messages$", "messages", read_messages, write_messages),
    (r"/chat/completions$", "chat", read_chat, write_chat),
    (r"/responses$", "responses", read_responses, write_responses),
    (r":(stream)?[gG]enerateContent$", "gemini", read_gemini, write_gemini),
]


def handler(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def send(self, status, body, headers=None):
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": len(data), **(headers or {})}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            path = self.path.split("?")[0]
            if path.endswith("/models"):
                names = ["one", "two"]
                self.send(200, {"object": "list", "data": [{"id": name, "object": "model", "created": 1, "owned_by": "x"} for name in names]})
            else:
                self.send(404, {"error": {"message": "not found"}})

        do_HEAD = do_GET

        def do_POST(self):
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length) if length else self.chunks()
            if self.headers.get("content-encoding") == "gzip":
                import gzip
                raw = gzip.decompress(raw)
            path = self.path.split("?")[0]
            try:
                body = json.loads(raw or b"{}")
            except ValueError:
                return self.send(400, {"error": {"message": "not JSON"}})
            if path.endswith("countTokens"):
                return self.send(200, {"totalTokens": 100})
            if path.endswith("count_tokens"):
                return self.send(200, {"input_tokens": 100})
            api = next((api for api in APIS if re.search(api[0], path)), None)
            if api is None:
                return self.send(404, {"error": {"message": f"no {path}"}})
            _, kind, read, written = api
            tools, items = read(body)
            name = body.get("model") or (re.search(r"/models/([^:/]+):", path) or [None, "?"])[1]
            request = Request(kind, name, tools, items, path=path, schema=lowered(answer_schema(body)))
            try:
                self.answer(request, model.next_action(request), written, body, path)
            except (BrokenPipeError, ConnectionResetError):
                pass

        def answer(self, request, action, written, body, path):
            if action.get("fail") == "drop":
                self.close_connection = True
                return self.connection.close()
            if "fail" in action:
                return self.send(action["fail"], action["body"], action["headers"])
            done = model.resolved(action, request, {name: lowered(schema) for name, schema in request.tools.items()})
            if "call" in done and (request.tools.get(done["call"]) or {}).get("namespace"):
                done = {**done, "namespace": request.tools[done["call"]]["namespace"]}
            with model.lock:
                number = len(model.requests)
                if "call" in done and done["call"] not in NAMES["search"]:
                    model.calls.append(done["call"])
            whole, events = written(request.model, done, f"{number:04}")
            if not (body.get("stream") or "streamGenerateContent" in path):
                return self.send(200, whole)
            lines = []
            for event, data in events:
                lines.append(f"event: {event}\n" if event else "")
                lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
            self.send(200, "".join(lines), {"content-type": "text/event-stream"})

        def chunks(self):
            data = b""
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            return data

    return Handler
