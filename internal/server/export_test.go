package server

import "github.com/danielgtaylor/huma/v2"

// Needs returns which routes have a row of rights, as METHOD PATH.
func Needs() map[string]bool {
	_, api := build(Options{})
	out := map[string]bool{}
	for path, item := range api.OpenAPI().Paths {
		for _, o := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if o != nil {
				if _, ok := needs[o.OperationID]; ok {
					out[o.Method+" "+path] = true
				}
			}
		}
	}
	return out
}
