package operate

import "reflect"

// Table is a nested table in a result, e.g. an account's collections.
type Table struct {
	Title, Empty string // sentence for a table without rows
	Columns      []Column
	Rows         []Row
}

type nested struct {
	title, empty string
	at           []int
	fields       outputs
}

// nestedOf describes a result field with the tag table, a slice with structs.
func nestedOf(f *reflect.StructField) nested {
	return nested{f.Tag.Get("table"), f.Tag.Get("empty"), f.Index, outputsOf(f.Type.Elem())}
}

// tablesOf returns a result's nested tables.
func (o *outputs) tablesOf(v reflect.Value) (all []Table) {
	for i := range o.tables {
		n := &o.tables[i]
		t := Table{Title: n.title, Empty: n.empty, Columns: n.fields.columns}
		rows := v.FieldByIndex(n.at)
		for i := range rows.Len() {
			t.Rows = append(t.Rows, n.fields.row(rows.Index(i).Interface()))
		}
		all = append(all, t)
	}
	return all
}
