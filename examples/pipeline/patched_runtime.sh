#!/usr/bin/env bash
# Patch an ExecuTorch tree, check a model against what it will run on, and prove it.
#
#   patched_runtime.sh TREE MODEL OUT
#
# TREE is a checkout of ExecuTorch, MODEL what `graphcheck check` takes, OUT a folder for the stamp,
# the diff and the report. Exit code 0: every patch is in the tree and the model has no finding that
# they do not mend.
set -euo pipefail

tree=$1 model=$2 out=$3
graphcheck=${GRAPHCHECK:-graphcheck}
mkdir -p "$out"

# What will change, for the record and for review. Exit code 1 says that there is something.
$graphcheck patch diff --source "$tree" --output "$out/kernels.diff" || [ $? -eq 1 ]

# All or nothing; a second run changes nothing.
$graphcheck patch apply --source "$tree" --stamp "$out/stamp.json"
$graphcheck patch apply --source "$tree" --check

# Your build goes here. CMake can insist on the patches, too:
#   list(APPEND CMAKE_MODULE_PATH "$($graphcheck patch cmake-dir)/cmake")
#   include(GraphcheckSource)
#   graphcheck_check_source(<tree>)

# Kernels that the tree has right are no longer findings.
$graphcheck check "$model" --stamp "$out/stamp.json" --output-format json --output "$out/report.json"
