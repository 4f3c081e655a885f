package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/model"
)

// version is set by the linker (-X main.version=...).
var version string

// versionText is the linker's version, else the module's, else the revision.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "(devel)" && len(s.Value) >= 12 {
			v = "devel-" + s.Value[:12]
		}
	}
	return v
}

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this program", Args: cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version   string `json:"version"`
				API       string `json:"api"`
				Decisions string `json:"decisions"`
			}{versionText(), rest.Version, model.Version}
			return a.Show(v, func(t *cli.Table) {
				t.Row("comb", v.Version)
				t.Row("api", v.API)
				t.Row("decisions", v.Decisions)
			})
		},
	}
}
