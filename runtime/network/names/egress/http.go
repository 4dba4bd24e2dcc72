package egress

// http refuses: plain HTTP is judged request by request, which this version does not do.
func (f *flow) http() {
	f.refuse("plain HTTP is not offered by this version", "https")
	reset(f.client)
}
