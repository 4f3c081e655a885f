package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// LogFlags are the flags about a server's log.
type LogFlags struct{ level, format string }

// Add adds the flags to those of a command.
func (l *LogFlags) Add(to *pflag.FlagSet) {
	to.StringVar(&l.level, "log", "warn", "what to log on stderr: debug, info, warn or error")
	to.StringVar(&l.format, "log-format", "text", "how: text, or json with a value in each line")
}

// Logger returns a logger as the flags say.
func (l *LogFlags) Logger(to io.Writer) (*slog.Logger, error) {
	var level slog.Level
	var wrong []error
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		wrong = append(wrong, fmt.Errorf("--log %q: want debug, info, warn or error", l.level))
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(to, o)), errors.Join(wrong...)
	case "json":
		return slog.New(slog.NewJSONHandler(to, o)), errors.Join(wrong...)
	}
	return nil, errors.Join(append(wrong, fmt.Errorf("--log-format %q: want text or json", l.format))...)
}
