# examples/suspend.py: a training loop that makes itself small when it is asked
import os, pathlib, random, signal, sys, time

STEPS = int(os.environ.get("STEPS", "1000"))
ack = os.environ.get("COMB_SUSPEND_FILE")
asked = stopping = False

def note(signum, frame):  # only note it: a handler runs in the middle of a step
    global asked, stopping
    if signum == signal.SIGTERM:
        stopping = True
    else:
        asked = True

for sig in signal.SIGUSR1, signal.SIGTERM:
    signal.signal(sig, note)

slope = offset = 0.0
for step in range(STEPS):
    x = random.Random(step).uniform(-1, 1)
    error = slope * x + offset - (3 * x + 1)
    slope, offset = slope - 0.2 * error * x, offset - 0.2 * error
    time.sleep(0.02)  # a step of a real training takes longer
    if asked and ack:
        asked = False
        # model.to("cpu") and the optimiser's state too, then torch.cuda.empty_cache()
        pathlib.Path(ack).touch()
        while os.path.exists(ack) and not stopping:  # frozen somewhere in here
            time.sleep(0.05)
        # model.to("cuda"), unless it is stopping
    if stopping:
        # save the model here, from where it is
        sys.exit(143)
print("parameters", repr(slope), repr(offset))
