// Package jobspec reads OpenPAI's job protocol v2 and makes a model.Job of it:
// it parses, fills defaults, checks, renders templates and computes how many
// leaves each task needs. It also knows the environment that the protocol
// promises to a task. It must not decide where or when a job runs, must not
// touch files, processes or the network, and must not keep secrets anywhere but
// in the result it returns.
package jobspec
