hydra_add_test(conform "" compute LIBS hydra_compute)
target_sources(conform_compute PRIVATE
  conform/attn_case.c conform/attn_drive.c conform/guarded.c)
# The double reference is most of the test's time.
set_source_files_properties(conform/attn_case.c PROPERTIES COMPILE_OPTIONS -O2)
