"""Running a program: the native runner, its build, the memory plan, devices."""
