export interface Template {
  name: string;
  text: string;
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

const opportunistic = `# Runs on cells that nobody uses at the moment. When their owner wants them, it is asked to save its work and goes.
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

const parameters = `# Values of their own place, and a secret that nobody else may see.
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

// The first is what a new job begins with.
export const templates: [Template, ...Template[]] = [
  { name: 'One task', text: one },
  { name: 'A gang', text: gang },
  { name: 'Opportunistic, with a checkpoint', text: opportunistic },
  { name: 'In a container', text: container },
  { name: 'With a time limit', text: limited },
  { name: 'Parameters and a secret', text: parameters },
  { name: 'Servers and workers', text: servers },
];
