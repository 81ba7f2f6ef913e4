// Linking is the test: a room whose archive is pulled in whole must resolve with its declared dependencies
// alone.
int main() { return 0; }
