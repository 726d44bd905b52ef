#!python
# The program `longformer` of the installed package; importing the package would make it start later.
import importlib.util
import os
import sys
import sysconfig

folders = [os.path.join(sysconfig.get_path("platlib"), "longformer_cpp")]
found = importlib.util.find_spec("longformer_cpp")
folders += found.submodule_search_locations if found else []
programs = [os.path.join(folder, "bin", "longformer") for folder in folders]
for program in programs:
    if os.path.exists(program):
        os.execv(program, [program, *sys.argv[1:]])
sys.exit(f"longformer: error: expected the program of the package longformer-cpp, found no {' nor '.join(programs)}")
