package model

import (
	"reflect"
	"strings"
	"testing"

	"github.com/combsched/comb/internal/core/cell"
)

// TestSKUFields: whatever differs in a SKU is said with its old and its new value; of fields that
// hold others each.
func TestSKUFields(t *testing.T) {
	var each func(sku, field reflect.Value, name string)
	each = func(sku, field reflect.Value, name string) {
		was, is := &cell.SKU{Name: "V100"}, sku.Addr().Interface().(*cell.SKU)
		switch field.Kind() {
		case reflect.Struct:
			for i := range field.NumField() {
				each(sku, field.Field(i), name+"."+field.Type().Field(i).Name)
			}
			return
		case reflect.String:
			field.SetString("x")
		case reflect.Int64:
			field.SetInt(3)
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{"x", "y"}))
		default:
			t.Fatalf("%s is a %s", name, field.Kind())
		}
		if got := skuFields(was, is); len(got) != 1 || got[0].Before == got[0].After || got[0].Key == "" {
			t.Errorf("%s: %v", name, got)
		}
		field.SetZero()
	}
	sku := cell.SKU{Name: "V100"}
	all := reflect.ValueOf(&sku).Elem()
	for i := range all.NumField() {
		if name := all.Type().Field(i).Name; name != "Name" {
			each(all, all.Field(i), name)
		}
	}
}

// TestSKUSentences: what differs is said with its values, and once where it is the same in several.
func TestSKUSentences(t *testing.T) {
	config := func(memory, files int64, groups ...string) *Config {
		limits := cell.TaskLimits{NoFile: files, MemLockMB: -1}
		return &Config{Cluster: cell.Spec{SKUs: []cell.SKU{{Name: "A100", MemoryMB: 4096, MilliCPU: 1500, Limits: limits},
			{Name: "CPU", Limits: limits}, {Name: "V100", MemoryMB: memory, Groups: groups, Limits: limits}}}}
	}
	p := ConfigPair{Before: config(1024, 0), After: config(512, 65536, "video")}
	p.Before.Cluster.SKUs[0].MilliCPU, p.After.Cluster.SKUs[1].Name = 4000, "T4"
	got := strings.Join(skuSentences(p.skus()), "\n")
	if want := `SKU A100: cpu 4 -> 1500m
SKUs A100, V100: limits.nofile none -> 65536
SKU CPU is removed
SKU T4 is added
SKU V100: memory 1Gi -> 512Mi
SKU V100: groups none -> video`; got != want {
		t.Errorf("it says:\n%s", got)
	}
}
