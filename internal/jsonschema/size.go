package jsonschema

import "reflect"

// meter measures heap memory, counting each block once at the allocator's size. It uses reflection, so that it stays
// correct for later releases of the library and regexp. Maps and functions have a known size but no address.
type meter struct {
	bytes int
	seen  map[block]bool
	todo  []reflect.Value
}

// block includes the type, because a struct shares its first field's address.
type block struct {
	at uintptr
	of reflect.Type
}

func newMeter() *meter { return &meter{seen: map[block]bool{}} }

// add counts a value and everything that it points to.
func (m *meter) add(v any) {
	m.todo = append(m.todo, reflect.ValueOf(v))
	for len(m.todo) > 0 {
		last := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		m.look(last)
	}
}

func (m *meter) look(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && m.first(v.Pointer(), v.Type()) {
			m.allocate(int(v.Type().Elem().Size()))
			m.todo = append(m.todo, v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			if v = v.Elem(); !isPointer(v.Kind()) {
				m.allocate(int(v.Type().Size()))
			}
			m.todo = append(m.todo, v)
		}
	case reflect.String:
		if v.Len() > 0 && m.first(v.Pointer(), v.Type()) {
			m.allocate(max(v.Len(), 16)) // small objects share 16-byte blocks with garbage
		}
	case reflect.Slice:
		if v.Cap() > 0 && m.first(v.Pointer(), v.Type()) {
			m.allocate(v.Cap() * int(v.Type().Elem().Size()))
			m.elements(v)
		}
	case reflect.Array:
		m.elements(v)
	case reflect.Map:
		if !v.IsNil() && m.first(v.Pointer(), v.Type()) {
			m.mapped(v)
		}
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields allocates for each
			if hasPointers(v.Field(i).Kind()) {
				m.todo = append(m.todo, v.Field(i))
			}
		}
	case reflect.Func:
		if !v.IsNil() {
			m.allocate(closureSize)
		}
	case reflect.Chan:
		if !v.IsNil() && m.first(v.Pointer(), v.Type()) {
			m.allocate(channelSize + v.Cap()*int(v.Type().Elem().Size()))
		}
	}
}

func (m *meter) elements(v reflect.Value) {
	if !hasPointers(v.Type().Elem().Kind()) {
		return
	}
	for i := range v.Len() {
		m.todo = append(m.todo, v.Index(i))
	}
}

// mapped counts a map: groups of 8 slots and a control word, in tables filled to seven eighths, then doubled, or
// split at 1,024 slots.
func (m *meter) mapped(v reflect.Value) {
	slot := int(v.Type().Key().Size() + max(v.Type().Elem().Size(), 8)) // without padding
	slots := 8
	for n := v.Len(); slots*7/8 < n; {
		slots *= 2
	}
	m.allocate(mapSize)
	if n := v.Len(); n > 0 {
		m.allocate(slots*slot + slots)
		if n > 8 {
			m.allocate(mapSize)
		}
	}
	for each := v.MapRange(); each.Next(); {
		m.todo = append(m.todo, each.Key(), each.Value())
	}
}

// first reports whether a block was not counted yet.
func (m *meter) first(at uintptr, of reflect.Type) bool {
	b := block{at, of}
	if m.seen[b] {
		return false
	}
	m.seen[b] = true
	return true
}

// Runtime overhead of a channel, an empty map, and a function with few captured variables.
const (
	channelSize = 104
	mapSize     = 48
	closureSize = 48
)

// allocate rounds up like the allocator: about eight size classes per doubling, and whole pages above 32 KiB.
func (m *meter) allocate(n int) {
	step := 8
	switch {
	case n > 32<<10:
		step = 8 << 10
	case n > 128:
		for step = 16; n > step*16; {
			step *= 2
		}
	case n > 8:
		step = 16
	}
	m.bytes += (n + step - 1) / step * step
}

func isPointer(k reflect.Kind) bool {
	switch k {
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return true
	}
	return false
}

func hasPointers(k reflect.Kind) bool {
	return isPointer(k) || k == reflect.Interface || k == reflect.String || k == reflect.Slice || k == reflect.Array || k == reflect.Struct
}
