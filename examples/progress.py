# examples/progress.py: fits a line to points, and reports how far it is.
import json, os, random

STEPS = int(os.environ.get("STEPS", "200"))

def report(**line):  # a line with its end in one write
    if "COMB_PROGRESS_FILE" in os.environ:
        with open(os.environ["COMB_PROGRESS_FILE"], "a") as f:
            f.write(json.dumps(line) + "\n")

slope = offset = 0.0
for step in range(1, STEPS + 1):
    x = random.Random(step).uniform(-1, 1)
    error = slope * x + offset - (3 * x + 1)
    slope, offset = slope - 0.2 * error * x, offset - 0.2 * error
    report(step=step, total=STEPS, loss=error * error)
print("fitted", round(slope, 2), round(offset, 2))
