// Package jobspec reads OpenPAI's job protocol v2 and makes a model.Job of it. It parses,
// fills in defaults, checks, renders templates, and computes how many leaves each task needs.
// It also knows the environment that the protocol promises to a task. It must not decide
// where or when a job runs. It must not touch files, processes or the network. It must keep
// secrets nowhere but in its result.
package jobspec
