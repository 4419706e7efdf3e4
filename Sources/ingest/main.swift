print("not built")
