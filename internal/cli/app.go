// Package cli is what all commands share: App, which is one run of the command line with its
// streams, flags and server; tables and trees in text; the lines of several tasks; streams
// and ports of a task; and messages for errors. It must not know what any command does.
package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/core/model"
)

// App is one run of the command line: its streams, its environment and the
// flags that every command has.
type App struct {
	In      io.Reader
	Out     io.Writer
	Errs    io.Writer
	Env     func(string) string
	Version string // of this program
	Now     func() time.Time
	TTY     bool // out is a terminal
	// Interrupted is closed by SIGINT and SIGTERM.
	Interrupted <-chan struct{}

	Server    string
	TokenFile string
	TLSCA     string
	Format    string
	NoHeaders bool
	Timeout   time.Duration
}

// Noun makes a command that only has verbs.
func Noun(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: NounHelp}
	c.AddCommand(verbs...)
	return c
}

// NounHelp answers a noun without a verb, or with an unknown one.
func NounHelp(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	return unknownVerb(c, args[0])
}

// WallTime is the time of this machine.
func WallTime() model.Time { return model.Time(time.Now().UnixMicro()) }
