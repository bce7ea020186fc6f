"""Handles overdue orders, in any number of processes. TOCSIN_URL=… TOCSIN_TOKEN=… python3 consumer.py order.unpaid"""
import http.client, json, os, sys, time, urllib.request

TOPIC = os.environ.get("TOCSIN_URL", "http://127.0.0.1:7420") + "/v1/topics/" + sys.argv[1]
HEADERS = {"content-type": "application/json", "authorization": "Bearer " + os.environ.get("TOCSIN_TOKEN", "")}


def ask(step, body):
    """Asks until there is an answer: claim and settle may be repeated."""
    headers = {name: value for name, value in HEADERS.items() if value != "Bearer "}
    while True:
        try:
            request = urllib.request.Request(f"{TOPIC}/{step}", json.dumps(body).encode(), headers)
            return json.load(urllib.request.urlopen(request, timeout=90))
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "code", 503) < 500 and error.code != 429:
                sys.exit(f"refused: {error.read().decode()}")
            time.sleep(1)


def handle(task):
    print(f"{task['key']} was not paid in time: {task['payload']}", flush=True)


while True:
    for task in ask("claim", {"limit": 1, "wait": "30s", "lease": "30s"})["tasks"]:
        try:
            handle(task)
            outcome = {"outcome": "done"}
        except Exception as error:
            outcome = {"outcome": "retry", "reason": str(error)}
        ask("settle", {"tasks": [{"key": task["key"], "token": task["token"], **outcome}]})
