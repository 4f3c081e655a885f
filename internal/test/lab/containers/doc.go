// Package containers tests what users see of tasks in containers: real server, real
// engine, real kills. It needs root and Debian's engine (make test-container), and must
// not hold anything but tests.
package containers
