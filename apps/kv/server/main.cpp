// cordma-kv: a key-value service for Redis clients and for clients that read remote memory.
int main() { return 0; }
