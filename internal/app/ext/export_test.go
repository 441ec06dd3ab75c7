package ext

// NamedMost is how many installs an error of an audit names.
const NamedMost = namedMost
