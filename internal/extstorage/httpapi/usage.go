package httpapi

import ext "holdfast/internal/extstorage"

// usage answers with the whole install's totals, quota and warnings, and the usage of each namespace that the token may
// access.
func (x *exchange) usage() error {
	u, err := x.service.Usage(x.ctx(), x.ask)
	if err != nil {
		return err
	}
	has := func(b []byte, name string, used int64, limit string, maximum int64) []byte {
		b = appendInt(append(key(b, name), `{"used":`...), used)
		return append(appendInt(key(b, limit), maximum), '}')
	}
	b := append(make([]byte, 0, 512), '{')
	b = has(b, "bytes", u.Counters.Bytes, "limit", u.Quota.Bytes)
	b = has(b, "keys", u.Counters.Keys, "limitPerNamespace", u.Quota.Keys)
	b = has(b, "namespaces", u.Counters.Namespaces, "limit", u.Quota.Namespaces)
	b = appendList(key(b, "byNamespace"), u.Namespaces, appendNamespace)
	b = appendList(key(b, "warnings"), u.Warnings, func(b []byte, w *ext.Warning) []byte {
		b = appendString(key(append(b, '{'), "what"), w.What)
		if w.Namespace != "" {
			b = appendString(key(b, "namespace"), w.Namespace)
		}
		b = appendInt(key(b, "used"), w.Used)
		b = appendInt(key(b, "limit"), w.Limit)
		return append(appendInt(key(b, "percent"), w.Percent), '}')
	})
	return x.answerRead(append(b, '}'))
}

// appendNamespace appends a namespace's usage.
func appendNamespace(b []byte, n *ext.NamespaceUsage) []byte {
	b = appendString(key(append(b, '{'), "namespace"), n.Namespace)
	b = appendInt(key(b, "keys"), n.Keys)
	return append(appendInt(key(b, "bytes"), n.Bytes), '}')
}

// namespaces answers with the namespaces with live records to which the token has any access, also w alone.
func (x *exchange) namespaces() error {
	list, err := x.service.Namespaces(x.ctx(), x.ask)
	if err != nil {
		return err
	}
	return x.answerRead(append(appendList([]byte(`{"namespaces":`), list, appendNamespace), '}'))
}
