# examples/resume.py: saves its work when it has to make room, and goes on from there.
import json, os, random, signal, sys, time

STEPS = int(os.environ.get("STEPS", "200"))
model = os.path.join(os.environ.get("COMB_CHECKPOINT_DIR", "."), "model.json")
stopping = False

def note(signum, frame):  # only note it: a handler runs in the middle of a step
    global stopping
    stopping = True

def report(**line):
    if "COMB_PROGRESS_FILE" in os.environ:
        with open(os.environ["COMB_PROGRESS_FILE"], "a") as f:
            f.write(json.dumps(line) + "\n")

def save(state):  # the whole file or none: a kill in between leaves the one before
    with open(model + ".new", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(model + ".new", model)
    report(step=state["step"], total=STEPS, checkpoint=True)

signal.signal(signal.SIGTERM, note)
state = {"step": 0, "slope": 0.0, "offset": 0.0}
if os.path.exists(model):
    with open(model) as f:
        state = json.load(f)
    print("goes on at step", state["step"])

while state["step"] < STEPS:
    x = random.Random(state["step"]).uniform(-1, 1)  # of a step, whichever attempt makes it
    error = state["slope"] * x + state["offset"] - (3 * x + 1)
    state["slope"] -= 0.2 * error * x
    state["offset"] -= 0.2 * error
    state["step"] += 1
    report(step=state["step"], total=STEPS, loss=error * error)
    time.sleep(0.02)  # a step of a real training takes longer
    if stopping and state["step"] < STEPS:
        save(state)
        print("saved at step", state["step"])
        sys.exit(143)  # 0 would do as well: with --checkpoint, and as it reports its steps
print("parameters", repr(state["slope"]), repr(state["offset"]))
