import { templates as names, text as words } from '../../text/submit';
import labDefault from '../../../../testdata/lab/default-test.yaml?raw';
import labGangFour from '../../../../testdata/lab/gang-four.yaml?raw';
import labGangTwo from '../../../../testdata/lab/gang-two.yaml?raw';
import labIncrementalFour from '../../../../testdata/lab/incremental-four.yaml?raw';
import labIncrementalTwo from '../../../../testdata/lab/incremental-two.yaml?raw';
import labOppo from '../../../../testdata/lab/vc1-oppo.yaml?raw';
import labProd from '../../../../testdata/lab/vc1-prod.yaml?raw';
import labTest from '../../../../testdata/lab/vc1-test.yaml?raw';

export interface Template {
  name: string;
  text: string;
  bound?: boolean; // it names its virtual cluster on purpose
}

const one = `protocolVersion: 2
name: hello
type: job
taskRoles:
  main:
    instances: 1
    resourcePerInstance: {gpu: 1}
    commands:
    - echo "Hello from $PAI_JOB_NAME"
    - sleep 60
defaults:
  virtualCluster: default
extras:
  hivedScheduler:
    jobPriorityClass: test
`;

const gang = `# All tasks start together, or none does. They find each other by the environment.
protocolVersion: 2
name: gang
type: job
taskRoles:
  worker:
    instances: 2
    completion:
      minFailedInstances: 1
      minSucceededInstances: 2
    resourcePerInstance:
      gpu: 1
      ports: {train: 1}
    commands:
    - echo "worker $PAI_TASK_INDEX of 2"
    - sleep 60
defaults:
  virtualCluster: default
extras:
  hivedScheduler:
    jobPriorityClass: test
`;

const opportunistic = `# Runs on cells that are idle at the moment. When their virtual cluster wants them back, it is asked to save its work and ends.
protocolVersion: 2
name: background
type: job
jobRetryCount: 0
taskRoles:
  main:
    instances: 1
    resourcePerInstance: {gpu: 1}
    commands:
    - trap 'echo saving; exit 0' TERM
    - for step in $(seq 1000); do echo "step $step"; sleep 1; done
defaults:
  virtualCluster: default
extras:
  hivedScheduler:
    jobPriorityClass: oppo
  comb:
    grace: 30s
    checkpoint: true
`;

const container = `# Runs in a container of the image, where the nodes have an engine for it.
protocolVersion: 2
name: container
type: job
prerequisites:
- name: image
  type: dockerimage
  uri: pytorch/pytorch:latest
taskRoles:
  main:
    instances: 1
    dockerImage: image
    resourcePerInstance: {gpu: 1, cpu: 4, memoryMB: 8192}
    commands:
    - python -c "import torch; print(torch.cuda.device_count(), 'GPUs')"
defaults:
  virtualCluster: default
`;

const limited = `# A time limit lets the scheduler fill gaps with the job, and gives those who wait an estimate.
protocolVersion: 2
name: short
type: job
taskRoles:
  main:
    instances: 1
    resourcePerInstance: {gpu: 1}
    commands:
    - sleep 120
defaults:
  virtualCluster: default
extras:
  comb:
    timeLimit: 5m
`;

const parameters = `# Values that the commands take by name, and a secret that no other user sees.
protocolVersion: 2
name: parameters
type: job
parameters:
  rate: 0.1
  epochs: 3
secrets:
  token: put-it-here
taskRoles:
  main:
    instances: 1
    resourcePerInstance: {gpu: 1}
    commands:
    - echo "rate <% $parameters.rate %>, <% $parameters.epochs %> epochs"
defaults:
  virtualCluster: default
`;

const servers = `# Two roles in one job: the workers' end ends the job.
protocolVersion: 2
name: servers
type: job
taskRoles:
  server:
    instances: 1
    completion:
      minFailedInstances: 1
      minSucceededInstances: -1
    resourcePerInstance: {gpu: 1}
    commands:
    - sleep 3600
  worker:
    instances: 1
    completion:
      minFailedInstances: 1
      minSucceededInstances: 1
    resourcePerInstance: {gpu: 1}
    commands:
    - sleep 60
defaults:
  virtualCluster: default
`;

const single = `# Each task starts as soon as it finds a GPU, not all together.
protocolVersion: 2
name: sweep
type: job
taskRoles:
  trial:
    instances: 4
    completion:
      minFailedInstances: -1
      minSucceededInstances: 4
    resourcePerInstance: {gpu: 1}
    commands:
    - echo "trial $PAI_TASK_INDEX"
    - sleep 30
defaults:
  virtualCluster: default
extras:
  gangAllocation: false
`;

const board = `# TensorBoard, or any other page: comb job port-forward NAME 6006 opens it on your machine.
protocolVersion: 2
name: board
type: job
prerequisites:
- name: image
  type: dockerimage
  uri: tensorflow/tensorflow:latest
taskRoles:
  main:
    instances: 1
    dockerImage: image
    resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 2048}
    commands:
    - tensorboard --logdir /mnt --port 6006 --bind_all
defaults:
  virtualCluster: default
extras:
  comb:
    timeLimit: 8h
`;

const retried = `# What fails by the program is tried again three times; failures of the platform do not count.
protocolVersion: 2
name: retried
type: job
jobRetryCount: 3
taskRoles:
  main:
    instances: 1
    taskRetryCount: 1
    resourcePerInstance: {gpu: 1}
    commands:
    - python train.py
defaults:
  virtualCluster: default
extras:
  comb:
    checkpoint: true
    grace: 60s
`;

// The first is what a new job begins with.
export const templates: [Template, ...Template[]] = [
  { name: names.one, text: one },
  { name: names.gang, text: gang },
  { name: names.opportunistic, text: opportunistic },
  { name: names.container, text: container },
  { name: names.limited, text: limited },
  { name: names.parameters, text: parameters },
  { name: names.servers, text: servers },
  { name: names.single, text: single },
  { name: names.board, text: board },
  { name: names.retried, text: retried },
];

export const lab: Template[] = [
  { name: names.labTest, text: labTest, bound: true },
  { name: names.labProd, text: labProd, bound: true },
  { name: names.labOppo, text: labOppo, bound: true },
  { name: names.labDefault, text: labDefault, bound: true },
  { name: names.labGangTwo, text: labGangTwo, bound: true },
  { name: names.labGangFour, text: labGangFour, bound: true },
  { name: names.labIncrementalTwo, text: labIncrementalTwo, bound: true },
  { name: names.labIncrementalFour, text: labIncrementalFour, bound: true },
];

// groups are what a job can begin with, as one chooses it.
export const groups = [
  { group: words.own, items: templates.map((t) => t.name) },
  { group: words.lab, items: lab.map((t) => t.name) },
];

// begun is the text of a template in a virtual cluster; a lab's job keeps its own.
export function begun(name: string | null, vc: string, put: (file: string, vc: string) => string): string | undefined {
  const t = [...templates, ...lab].find((one) => one.name === name);
  if (t === undefined || t.bound) return t?.text;
  return put(t.text, vc);
}
