package operate

import "reflect"

// Table is a part of a result that has rows itself, such as the collections of an account.
type Table struct {
	Title, Empty string
	Columns      []Column
	Rows         []Row
}

// nested is a field with the tag table.
type nested struct {
	title, empty string
	at           []int
	fields       outputs
}

// nestedOf reads the tags of a field that is a slice of structs.
func nestedOf(f *reflect.StructField) nested {
	return nested{f.Tag.Get("table"), f.Tag.Get("empty"), f.Index, outputsOf(f.Type.Elem())}
}

// tables returns the tables of a result.
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
