# examples/gang.py: a data-parallel gang that is suspended, or stopped, at one step
import json, os, pathlib, random, signal, socket, struct, sys, time

STEPS = int(os.environ.get("STEPS", "1000"))
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
model = os.path.join(os.environ["COMB_CHECKPOINT_DIR"], "model.json")
ack = os.environ.get("COMB_SUSPEND_FILE")
asked = stopping = False

def note(signum, frame):  # only note it: what the others do is not known here
    global asked, stopping
    if signum == signal.SIGTERM:
        stopping = True
    else:
        asked = True

def receive(peer, n):
    data = b""
    while len(data) < n:
        part = peer.recv(n - len(data))
        if not part:
            raise ConnectionError("a rank is gone")
        data += part
    return data

def connect():  # rank 0 has a connection to each of the others
    at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        with socket.create_server(at) as server:
            return [server.accept()[0] for _ in range(size - 1)]
    while True:
        try:
            return [socket.create_connection(at)]
        except ConnectionRefusedError:  # rank 0 is not up yet
            time.sleep(0.05)

def all_reduce(values):  # the sums over all ranks, the same bits on each of them
    form = f"<{len(values)}d"
    if rank == 0:
        parts = [values] + [struct.unpack(form, receive(p, struct.calcsize(form))) for p in peers]
        values = [sum(column) for column in zip(*parts)]
    for p in peers:
        p.sendall(struct.pack(form, *values))
    return values if rank == 0 else struct.unpack(form, receive(peers[0], struct.calcsize(form)))

def save(state):
    if rank == 0:
        with open(model + ".new", "w") as f:
            json.dump(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(model + ".new", model)

for sig in signal.SIGUSR1, signal.SIGTERM:
    signal.signal(sig, note)
state = {"step": 0, "slope": 0.0, "offset": 0.0}
if os.path.exists(model):
    with open(model) as f:
        state = json.load(f)
    print("goes on at step", state["step"])
peers = connect()

while state["step"] < STEPS:
    x = random.Random(state["step"] * size + rank).uniform(-1, 1)
    error = state["slope"] * x + state["offset"] - (3 * x + 1)
    time.sleep(0.02)  # a step of a real training takes longer
    # The flags go with the gradients, so that all ranks see the same ones at the same step.
    slope, offset, all_asked, any_stopping = all_reduce([error * x, error, asked, stopping])
    state["slope"] -= 0.2 * slope / size
    state["offset"] -= 0.2 * offset / size
    state["step"] += 1
    if any_stopping:
        save(state)
        sys.exit(143)
    if all_asked == size:  # not earlier: the one that is not asked yet would wait in the next step
        asked = False
        save(state)  # here too: a stop may find the gang suspended
        # model.to("cpu") and the optimiser's state too, then torch.cuda.empty_cache()
        pathlib.Path(ack).touch()
        while os.path.exists(ack) and not stopping:  # frozen somewhere in here
            time.sleep(0.05)
        if os.path.exists(ack):  # stopped in the turn of others
            sys.exit(143)
        # model.to("cuda")
print("parameters", repr(state["slope"]), repr(state["offset"]))
