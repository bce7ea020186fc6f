"""An order was paid: its timer is called off, in one transaction. DATABASE_URL=… python3 order.py 42"""
import csv, os, re, subprocess, sys


def psql(statements, **values):
    """Runs them in one transaction; what is in `values` is quoted by psql. Answers rows."""
    options = ["--no-psqlrc", "--quiet", "--csv", "--tuples-only", "--single-transaction"]
    settings = {"ON_ERROR_STOP": "1", "VERBOSITY": "verbose", **values}
    command = ["psql", os.environ["DATABASE_URL"], *options, *(f"--set={name}={value}" for name, value in settings.items())]
    done = subprocess.run(command, input=statements, text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return list(csv.reader(done.stdout.splitlines()))


def pay(order):
    [[outcome]] = psql(
        """
        UPDATE orders SET state = 'paid' WHERE id = :'order';
        SELECT outcome FROM tocsin.cancel('order.unpaid', 'order-' || :'order');
        """,
        order=order,
    )
    return outcome


try:
    print(pay(sys.argv[1]))
except RuntimeError as error:
    sqlstate = re.search(r"ERROR:  (\w{5}):", str(error))
    print("refused:", sqlstate.group(1) if sqlstate else error)
    sys.exit(1)
