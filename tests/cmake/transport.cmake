# worker/transport: every row of the table keeps the contract.
hydra_add_test(conform "" transport TSAN LIBS hydra_transport)
hydra_add_test(unit worker transport_self LIBS hydra_transport_self)
