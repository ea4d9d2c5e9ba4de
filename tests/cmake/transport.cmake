# worker/transport: every row of the table keeps the contract.
hydra_add_test(conform "" transport TSAN LIBS hydra_transport)
hydra_add_test(unit worker transport_self LIBS hydra_transport_self)
# NCCL on this machine's cards, and over a card that is not there.
hydra_add_test(conform "" nccl LIBS hydra_compute hydra_transport)
target_sources(conform_nccl PRIVATE conform/nccl_place_table.c)
hydra_add_variant(conform nccl_fake conform/conform_nccl.c TSAN
  SOURCES conform/nccl_place_fake.c LIBS hydra_fake_gpu)
hydra_add_test(unit worker nccl TSAN LIBS hydra_fake_gpu)
