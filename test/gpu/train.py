# test/gpu/train.py: a training on one GPU that keeps checkpoints, reports progress, and leaves the GPU's memory when it is asked.
import json, os, pathlib, signal, sys, time
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # the same sums in the same order
import torch

STEPS, WIDTH = int(os.environ["STEPS"]), int(os.environ.get("WIDTH", "4096"))
folder = os.environ.get("COMB_CHECKPOINT_DIR", ".")
checkpoint, ack = os.path.join(folder, "model.pt"), os.environ.get("COMB_SUSPEND_FILE")
asked = stopping = False

def note(signum, frame):
    global asked, stopping
    stopping, asked = stopping or signum == signal.SIGTERM, asked or signum == signal.SIGUSR1

signal.signal(signal.SIGTERM, note)
signal.signal(signal.SIGUSR1, note)

def report(**line):
    with open(os.environ["COMB_PROGRESS_FILE"], "a") as f:
        f.write(json.dumps(line) + "\n")

def save(step):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint + ".new")
    os.replace(checkpoint + ".new", checkpoint)
    report(step=step, total=STEPS, checkpoint=True)

def move(to):
    model.to(to)
    for state in optimizer.state.values():
        for k, v in state.items():
            state[k] = v.to(to) if torch.is_tensor(v) else v
    torch.cuda.synchronize()
    if to == "cpu":
        torch.cuda.empty_cache()

torch.use_deterministic_algorithms(True)
torch.manual_seed(1)
model = torch.nn.Sequential(*(m for _ in range(4) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
step = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
    print("goes on at step", step, flush=True)
while step < STEPS:
    x = torch.randn(2048, WIDTH, generator=torch.Generator("cuda").manual_seed(step), device="cuda")
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 10 == 0:
        report(step=step, total=STEPS, loss=loss.item())
    if asked:
        asked = False
        began = time.time()
        move("cpu")
        pathlib.Path(ack).touch()
        print("left the GPU in %.0f ms at step %d" % (1000 * (time.time() - began), step), flush=True)
        while os.path.exists(ack) and not stopping:
            time.sleep(0.01)
        if not stopping:
            began = time.time()
            move("cuda")
            print("back on the GPU in %.0f ms" % (1000 * (time.time() - began)), flush=True)
    if stopping and step < STEPS:
        save(step)
        print("saved at step", step, flush=True)
        sys.exit(143)
print("parameters", repr(sum(p.double().sum().item() for p in model.parameters())), flush=True)
