package store

import (
	"context"
	"fmt"
)

// A rowTable is a table besides the journal whose rows have a sum each.
type rowTable struct {
	name   string
	key    string // its key column
	fields string // the fields that the sum covers, the key first
	text   bool   // its key is a string
	what   string // the name of a row in messages, before its key
}

// rowTables are the tables of a version of the schema. The bounds of tokens came with version 4:
// a token without bounds keeps its old sum.
func rowTables(schema int) []rowTable {
	tables := []rowTable{
		{"jobs", "id", "id, name, user, vc, phase, submitted, ended, status", false, "finished job"},
		{"secrets", "job", "job, sealed", false, "secrets of job"},
		{"tokens", "id", "id, name, subject, hash, created", true, "token"},
	}
	if schema >= 4 {
		tables[2].fields += " || bounds"
		tables = append(tables, rowTable{"objects", "id", "id, version, data", true, "entry"},
			rowTable{"audit", "seq", "seq, time, subject, verb, object, outcome, detail, link", false, "line of the audit log"})
	}
	if schema >= 7 {
		tables = append(tables, rowTable{"removed", "job", "job, at, rule", false, "the note of what was removed of job"},
			rowTable{"configs", "version", "version, at, author, reason, tag, restored, file", false, "version of the cluster file"})
	}
	if schema >= 8 {
		tables = append(tables, rowTable{"tags", "id", "id, job, tag", false, "tag"})
	}
	return tables
}

// rowSum is the digest of a row of a table: its fields in order, numbers as their decimals.
func rowSum(table string, fields ...any) digest {
	parts := [][]byte{[]byte(table)}
	for _, f := range fields {
		switch f := f.(type) {
		case []byte:
			parts = append(parts, f)
		default:
			parts = append(parts, fmt.Append(nil, f))
		}
	}
	return sumOf(parts...)
}

// sumRows calls f for each row with its computed sum, its stored sum, and the statement that
// stores one. It returns the sum over all rows.
func sumRows(ctx context.Context, c querier, schema int, f func(t rowTable, key any, sum, kept digest, update string) error) (total digest, err error) {
	for _, t := range rowTables(schema) {
		if err := t.each(ctx, c, func(key any, sum, kept digest) error {
			total.add(sum)
			return f(t, key, sum, kept, "UPDATE "+t.name+" SET sum = ? WHERE "+t.key+" = ?")
		}); err != nil {
			return total, err
		}
	}
	return total, nil
}

// each reads a table in pages, so that f may write to it.
func (t rowTable) each(ctx context.Context, c querier, f func(key any, sum, kept digest) error) error {
	type row struct {
		key       any
		sum, kept digest
	}
	var after any = int64(0)
	if t.text {
		after = ""
	}
	for {
		rows, err := c.QueryContext(ctx, fmt.Sprintf("SELECT sum, %s FROM %s WHERE %s > ? ORDER BY %s LIMIT %d", t.fields, t.name, t.key, t.key, pageEvents), after)
		if err != nil {
			return err
		}
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		var page []row
		for rows.Next() {
			var r row
			fields := make([]any, len(names)-1)
			to := []any{&r.kept}
			for i := range fields {
				to = append(to, &fields[i])
			}
			if err := rows.Scan(to...); err != nil {
				rows.Close()
				return err
			}
			r.key, r.sum = fields[0], rowSum(t.name, fields...)
			page = append(page, r)
		}
		if err := rows.Err(); err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			if err := f(r.key, r.sum, r.kept); err != nil {
				return err
			}
		}
		after = page[len(page)-1].key
	}
}
