package ext

// NamedMost is the maximum number of installs in an error of an audit.
const NamedMost = namedMost
