# examples/pytorch/train.py: DistributedDataParallel that makes room when it is asked, and goes on from there.
import json, os, signal, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "400"))
EVERY = int(os.environ.get("EVERY", "100"))  # steps from one checkpoint to the next
BATCH = 64
checkpoint = os.path.join(os.environ.get("COMB_CHECKPOINT_DIR", "."), "model.pt")
stopping = False

def note(signum, frame):  # only note it: what the other ranks do is not known here
    global stopping
    stopping = True

def report(**line):  # progress, for `comb job get`
    if rank == 0 and "COMB_PROGRESS_FILE" in os.environ:
        with open(os.environ["COMB_PROGRESS_FILE"], "a") as f:
            f.write(json.dumps(line) + "\n")

def save(step):  # the whole file or none: a kill in between leaves the one before
    if rank == 0:
        with open(checkpoint + ".new", "wb") as f:
            torch.save({"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()["state"]}, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(checkpoint + ".new", checkpoint)
        report(step=step, total=STEPS, checkpoint=True)
    dist.barrier()  # nobody ends before it is saved

def batch(step):  # of a step and a rank, whichever attempt makes it
    x = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(step * size + rank))
    return x.to(device), (x.sum(1, keepdim=True) / 4).sin().to(device)

signal.signal(signal.SIGTERM, note)
cuda = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
else:
    torch.set_num_threads(1)
dist.init_process_group("nccl" if cuda else "gloo")  # RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1)  # the same model on each rank
layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
model = DistributedDataParallel(layers, device_ids=[device.index] if cuda else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
step = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint, map_location=device, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state["optimizer"]})
    step = state["step"]
    print("rank", rank, "goes on at step", step, flush=True)

while step < STEPS:
    x, y = batch(step)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()  # the gradients become the mean of all ranks
    optimizer.step()
    step += 1
    # The flag goes with the loss, so that all ranks see it at the same step.
    shared = torch.stack([loss.detach(), torch.tensor(float(stopping), device=device)])
    dist.all_reduce(shared)
    total, asked = shared.tolist()
    if rank == 0:
        print("step", step, "loss", total / size, flush=True)
    report(step=step, total=STEPS, loss=total / size)
    time.sleep(0.02)  # a step of a real training takes longer
    if asked and step < STEPS:
        save(step)
        print("rank", rank, "saved at step", step, flush=True)
        sys.exit(143)  # not 0: there is work left
    if step % EVERY == 0:
        save(step)
print("rank", rank, "parameters", sum(p.double().sum().item() for p in model.parameters()), flush=True)
dist.destroy_process_group()
